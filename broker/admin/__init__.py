"""The admin port: faults and the clock over HTTP, for tests in any language. Off unless `ottla serve --admin-port` asks for it."""
