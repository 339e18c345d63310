#!/bin/sh
# Answers a call: one line of JSON on stdin, the result on stdout. A mail is put into outbox, once for each key.
read -r call
key=${call##*'"key":"'}
case "$call" in
'{"tool":"latest_mail"'*) cat office/latest_mail.json ;;
'{"tool":"list_contacts"'*) cat office/list_contacts.json ;;
*) mkdir -p outbox && printf '%s\n' "$call" >"outbox/${key%%'"'*}.json" && echo '{"sent": true}' ;;
esac
