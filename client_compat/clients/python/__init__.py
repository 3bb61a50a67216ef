"""The Python clients: one program, started as `python -m client_compat.clients.python --client NAME`."""
