#!/bin/sh
# The tools: one line of JSON on stdin, one object on stdout. Accounts of suppliers are the
# bank's business: no call names one.
read -r call
case "$call" in
*'"new_invoice"'*) cat inbox.json ;;
*'"pay"'*) echo "$call" >> paid.txt; echo '{"done": true}' ;;
*) echo "$call" >> booked.txt; echo '{"done": true}' ;;
esac
