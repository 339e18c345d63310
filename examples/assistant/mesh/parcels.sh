#!/bin/sh
# Answers a call: one line of JSON on stdin, the result on stdout. Booking is not played.
read -r call
case "$call" in
*list_notices*inbox*) cat parcels/inbox.json ;;
*list_notices*) cat parcels/junk.json ;;
*) echo '{"booked": true}' ;;
esac
