"""`make audit-corpus`: the audit on logs whose truth is known, planted ones and those that real brokers wrote under real clients."""
