FROM vigil-test-base:trixie
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends postgresql-17 postgresql-17-pgvector >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/lib/postgresql/17 \
 && mkdir /docker-entrypoint-initdb.d
COPY postgres-entrypoint /usr/local/bin/docker-entrypoint.sh
ENV PATH=/usr/lib/postgresql/17/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PGDATA=/var/lib/postgresql/data LANG=C.UTF-8
VOLUME /var/lib/postgresql/data
EXPOSE 5432
STOPSIGNAL SIGINT
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
