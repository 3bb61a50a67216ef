"""The Ottla broker, which speaks Kafka's protocol: its storage, coordinators, controller, replication and command line."""
