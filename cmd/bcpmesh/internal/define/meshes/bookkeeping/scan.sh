#!/bin/sh
# Answers a query about an invoice as the invoice wants it. What it may not say is refused, so
# that it then says the most that it may.
read -r query
case "$query" in
*'"attempt":0'*) echo '{"supplier": "DE99", "euros": 9000}' ;;
*) echo '{"supplier": "hosting", "euros": 500}' ;;
esac
