package definition

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"

	"github.com/bcpmesh/bcpmesh/bcp"
)

var cronParser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// ParseSchedule reads a cron schedule of five fields (PROTOCOL P9.4), as a
// [bcp.ScheduleParser].
func ParseSchedule(schedule string, zone *time.Location) (bcp.Schedule, error) {
	if why := checkCron(schedule); why != "" {
		return nil, fmt.Errorf("the schedule %s: %s", quote(schedule), why)
	}
	parsed, err := cronParser.Parse(schedule)
	if err != nil {
		return nil, err // checkCron would have said so
	}
	return func(t time.Time) time.Time { return parsed.Next(t.In(zone)) }, nil
}
