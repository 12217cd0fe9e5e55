# One image for every container of Vigil: the command selects the service.
# Its base by digest: docs/operations/supply-chain.md.

ARG PYTHON_IMAGE=python:3.13-slim
FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv --without-pip /opt/vigil && python3 -m venv --without-pip /opt/build
COPY requirements-build.lock requirements-cluster.lock requirements-node.lock ./
RUN pip --python /opt/build/bin/python install --require-hashes -r requirements-build.lock -r requirements-node.lock \
 && pip --python /opt/vigil/bin/python install --require-hashes -r requirements-cluster.lock
COPY . .
RUN /opt/build/bin/python -m services.api.web.libraries
RUN pip --python /opt/build/bin/python wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/vigil/bin/python install --no-deps dist/*.whl
# Nothing else is installed there: `python -m services.NAME` finds the packages without the command `vigil`.
RUN cd /opt/vigil/lib/python3*/site-packages && echo vigil_agents >vigil_agents.pth

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/vigil /opt/vigil
ENV PATH=/opt/vigil/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HOME=/tmp VIGIL_PORT=8080
WORKDIR /tmp
USER 10000:10000
# On a busy machine a service takes longer than 30 s until it is ready; its first success ends the period.
HEALTHCHECK --interval=3s --timeout=5s --start-period=120s --retries=3 CMD ["python", "-m", "shared.runtime.health_probe"]
CMD ["vigil", "--help"]
