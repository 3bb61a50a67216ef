#!/bin/bash
# Scripts of the user's own, once for a volume, as in bitnami/kafka.
set -eu
done=/bitnami/kafka/.user_scripts_initialized
if [ -e "$done" ]; then
    exit
fi
for script in /docker-entrypoint-initdb.d/*.sh; do
    if [ -f "$script" ]; then
        echo "===> $script"
        bash "$script"
        touch "$done"
    fi
done
