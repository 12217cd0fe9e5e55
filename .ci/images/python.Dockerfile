FROM vigil-test-base:trixie
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends python3 python3-pip python3-venv >/dev/null \
 && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \
 && ln -sf python3 /usr/bin/python
CMD ["python3"]
