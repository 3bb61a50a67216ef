"""The admin port: scripted faults, the clock, metrics and the console over HTTP. Off unless `ottla serve --admin-port` asks for it."""
