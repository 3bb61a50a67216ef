"""What a streams group computes (KIP-1071): topologies, internal topics, tasks and their assignment. Pure; see ARCHITECTURE.md."""
