"""The coordinators of groups, transactions and share state, on the partitions of their internal topics that this broker leads."""
