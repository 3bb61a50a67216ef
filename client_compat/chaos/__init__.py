"""Injects faults into a cluster of Ottla alone, three brokers and a controller: restarts, kills and pauses, as `cluster_mixed` does with
mixed clusters, and also cut network links and full disks."""
