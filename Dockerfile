# Two targets: `broker` (the default) serves; `audit` judges a log directory with DuckDB, without Java.
#
#   docker build -t ottla .
#   docker build -t ottla-audit --target audit .
#
# Both stages need the same Python; the build image may be another one that also has a C compiler.
ARG BASE_IMAGE=python:3.13-slim
ARG BUILD_IMAGE=${BASE_IMAGE}

FROM ${BUILD_IMAGE} AS build
RUN command -v cc >/dev/null || (apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*)
WORKDIR /src
COPY constraints.txt ./
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv /build && /build/bin/pip install -c constraints.txt setuptools wheel cython
COPY pyproject.toml setup.py README.md LICENSE ./
COPY ottla ottla
COPY protocol protocol
COPY broker broker
COPY spark_jobs spark_jobs
RUN /build/bin/pip wheel --no-deps --no-build-isolation -w /wheels .
RUN python3 -m venv --without-pip /opt/ottla \
    && /build/bin/pip --python /opt/ottla/bin/python install -c constraints.txt "$(echo /wheels/ottla-*.whl)[admin,telemetry]" \
    && find /opt/ottla -name '*.so' -exec strip --strip-unneeded {} + # 45 MB of symbols

FROM build AS build-audit
# What only a C++ program or a test of the libraries would use is left out.
RUN /build/bin/pip --python /opt/ottla/bin/python install -c constraints.txt "$(echo /wheels/ottla-*.whl)[audit]" \
    && cd /opt/ottla/lib/python3*/site-packages \
    && rm -rf pyarrow/include pyarrow/src pyarrow/tests \
    && find numpy -name tests -type d -prune -exec rm -rf {} +

# In the place of Kafka's images (docs/containers.md): their user, and a shell that keeps variables like KAFKA_…_SCRAM-SHA-512_….
FROM ${BASE_IMAGE} AS base
COPY container/shrink /tmp/
RUN useradd --uid 1000 --gid 0 --home-dir /home/appuser --shell /bin/bash appuser && ln -sf bash /bin/sh && /tmp/shrink && rm /tmp/shrink

# One layer without what was removed: a file that a later layer deletes is still in the image.
FROM scratch AS runtime
COPY --from=base / /
ENV PATH=/opt/ottla/bin:/opt/kafka/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PYTHONUNBUFFERED=1

FROM runtime AS audit
COPY --from=build-audit /opt/ottla /opt/ottla
USER 1000:0
WORKDIR /data
ENTRYPOINT ["ottla"]
CMD ["audit", "/data"]

FROM runtime AS broker
COPY --from=build /opt/ottla /opt/ottla
COPY container /tmp/container
RUN /tmp/container/install / && rm -rf /tmp/container
USER 1000:0
WORKDIR /opt/kafka
VOLUME ["/data", "/var/lib/kafka/data", "/bitnami/kafka"]
EXPOSE 9092 29092
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 CMD ["ottla", "health"]
ENTRYPOINT ["ottla-entrypoint"]
