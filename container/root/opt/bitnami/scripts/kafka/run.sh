#!/bin/bash
set -eu
/opt/bitnami/scripts/kafka/setup.sh
exec ottla kafka-image run bitnami
