#!/bin/sh
# The user of the units. Packages of both kinds run this.
set -e
if ! getent passwd bcpmesh >/dev/null 2>&1; then
  if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers bcpmesh.conf
  elif command -v useradd >/dev/null 2>&1; then
    useradd --system --home-dir /var/lib/bcpmesh --shell /usr/sbin/nologin bcpmesh
  else
    echo 'bcpmesh: make a user bcpmesh for the units' >&2
  fi
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
