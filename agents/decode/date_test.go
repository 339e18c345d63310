package decode

import (
	"testing"
	"time"
)

// Dates of mails of every form that was met, with names and offsets of zones.
// covers BCP-18
func TestDate(t *testing.T) {
	t.Parallel()
	const at = "2026-03-02T08:05:10Z"
	const minute = "2026-03-02T08:05:00Z"
	for text, want := range map[string]string{
		"Mon, 2 Mar 2026 08:05:10 +0000": at, "Mon, 02 Mar 2026 08:05:10 GMT": at, "Mon, 02 Mar 2026 08:05:10 UT": at, "Mon, 02 Mar 2026 08:05:10 Z": at, "2 Mar 2026 08:05:10 UTC": at, "Mon, 2 Mar 2026 08:05:10 -0000": at,
		"Mon, 2 Mar 2026 03:05:10 EST": at, "Mon, 2 Mar 2026 04:05:10 EDT": at, "Mon, 2 Mar 2026 02:05:10 CST": at, "Mon, 2 Mar 2026 03:05:10 CDT": at, "Mon, 2 Mar 2026 01:05:10 MST": at, "Mon, 2 Mar 2026 02:05:10 MDT": at, "Mon, 2 Mar 2026 00:05:10 PST": at, "Mon, 2 Mar 2026 01:05:10 PDT": at,
		"Mon, 2 Mar 2026 09:05:10 CET": at, "Mon, 2 Mar 2026 10:05:10 CEST": at, "Mon, 2 Mar 2026 17:05:10 JST": at, "Mon, 2 Mar 2026 09:05:10 +0100 (CET)": at, "Mon, 2 Mar 2026 09:05:10 +0100 (a (b) c)": at, "Mon, 2 Mar 2026 09:05:10 GMT+1": at, "Mon, 2 Mar 2026 09:05:10 UTC+01:00": at, "Mon, 2 Mar 2026 09:05:10 +01:00": at,
		"Mon, 2 Mar 2026 08:05 GMT": minute, "Mon, 2 Mar 2026 08:05 +0000": minute, "Mon, 2 Mar 2026 03:05 EST": minute, "2 Mar 26 08:05 GMT": minute, "Mon, 2 Mar 26 08:05:10 +0000": at, "Monday, 02-Mar-26 08:05:10 GMT": at, "Mon, 02-Mar-2026 08:05:10 GMT": at,
		"Monday, March 2, 2026 08:05:10 GMT": at, "March 2, 2026 8:05 AM EST": "2026-03-02T13:05:00Z", "Mar 2, 2026 8:05:10 PM GMT": "2026-03-02T20:05:10Z", "Mon Mar  2 08:05:10 2026 +0000": at, "Mon Mar 2 03:05:10 EST 2026": at, "2 march 2026 08:05:10 gmt": at, "mon, 2 mar 2026 08:05:10 gmt": at,
		"Mon, 2 Mar 2026 08.05.10 +0000": at, "  Mon,\r\n 2 Mar 2026\t08:05:10 +0000 ": at, "Mon 2 Mar 2026 08:05:10 +0000": at, "Wed, 2 Sept 2026 08:05 GMT": "2026-09-02T08:05:00Z",
		at: at, "2026-03-02T08:05:10+00:00": at, "2026-03-02T08:05:10+0000": at, "2026-03-02T09:05:10+01": at, "2026-03-02T08:05Z": minute, "2026-03-02 08:05:10Z": at, "2026-03-02 08:05:10 UTC": at, "2026-03-02 03:05:10 EST": at, "2026-03-02 08:05:10 +0000": at, "2026-03-02T08:05:10.000Z": at, "2026-03-02t08:05:10z": at, "20260302T080510Z": at, "2026-03-02T03:05:10 -0500": at,
		"2026-03-02": "2026-03-02T00:00:00Z", "2 Mar 2026": "2026-03-02T00:00:00Z", "Mon, 02 Mar 2026": "2026-03-02T00:00:00Z",
		"Tue, 31 Dec 2069 23:59:59 -1200": "2070-01-01T11:59:59Z", "1970-01-01T00:00:00Z": "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z": "9999-12-31T23:59:59Z",
	} {
		if got, exact, ok := Date(text); !ok || !exact || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, exact %v, %v; want %s", text, got, exact, ok, want)
		}
	}
	for text, want := range map[string]string{"Mon, 2 Mar 2026 08:05:10": at, "Mon, 2 Mar 2026 08:05:10 XYZ": at, "Mon, 2 Mar 2026 08:05:10 IST": at, "2026-03-02T08:05:10": at, "2 Mar 2026 08:05": minute, "Mon Mar  2 08:05:10 2026": at, "2 Mar 2026 08:05:10 A": at} {
		if got, exact, ok := Date(text); !ok || exact || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, exact %v, %v; want %s that is not exact", text, got, exact, ok, want)
		}
	}
	for _, text := range []string{"", "(", "yesterday", "Wed, 04 Mar 2026 25:61:00 +0000", "31 Feb 2026 08:05:10 +0000", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-0100", "03/04/2026", "Mon", "2026", "08:05:10", "2026-03-02T08:05:10Z x"} {
		got, _, ok := Date(text)
		failIf(t, ok, "%q: %v", text, got)
	}
}

// A date is in the zone that it says, whatever this machine's is.
func TestDateKeepsItsZone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Mon, 2 Mar 2026 09:05:10 +0100": "2026-03-02T09:05:10+01:00", "Mon, 2 Mar 2026 23:05:10 EST": "2026-03-02T23:05:10-05:00",
		"2026-03-02T01:05:10+05:30": "2026-03-02T01:05:10+05:30", "Mon, 2 Mar 2026 08:05:10 GMT": "2026-03-02T08:05:10Z",
		"2070-01-01T00:59:59+13:00": "2070-01-01T00:59:59+13:00", "Mon, 2 Mar 2026 08:05:10": "2026-03-02T08:05:10Z",
	} {
		got, _, ok := Date(text)
		failIf(t, !ok || got.Format(time.RFC3339) != want, "%q: %v, %v; want %s", text, got, ok, want)
	}
}
