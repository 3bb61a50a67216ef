"""A consume-transform-produce pipeline over the flights, with and without transactions, under zombie instances and broker kills."""
