"""The Ottla broker: a broker that speaks Kafka's protocol, with everything that runs in its process."""
