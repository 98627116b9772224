package presets

import (
	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// Twilio has the limit of api.twilio.com, "twilio": how many requests of an account, or subaccount, may be
// out at once.
//
// Twilio documents that there is such a limit, and no figure; 50 is ours, and half of what users report.
// The Twilio-Concurrent-Requests header of the answers tells how near it is. What Twilio sends on, messages
// for instance, it queues by itself. A 429 means that nothing was done.
func Twilio() Preset {
	return Preset{
		Source:  "https://www.twilio.com/docs/api/errors/20429",
		Checked: "2026-11-21",
		Hosts:   []string{"api.twilio.com"},
		Rules: []outflow.Rule{{
			Name:   "twilio",
			Match:  "api.twilio.com/2010-04-01/Accounts/{sid}/",
			Key:    outflow.PathValue("sid"),
			Limits: []limit.Limit{limit.Concurrent(50)},
		}},
	}
}
