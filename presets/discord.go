package presets

import (
	"net/http"
	"strings"
	"time"

	"github.com/outflow-go/outflow"
)

// Discord has the limits of discord.com/api:
//
//   - "discord": 50 requests a second of a bot, or of an IP address for those without a credential, such as
//     webhooks, but for answers to interactions, to which that limit doesn't apply (nor to their follow-ups,
//     but those can't be told from webhooks, and are held here);
//   - "discord route": no limit that is declared, and a bucket for each route, method and major parameter
//     (channel, guild or webhook), so that a refusal holds up nobody else. Routes of which Discord says that
//     they are counted together, by X-RateLimit-Bucket, share one from then on.
//
// Discord asks not to declare the limits of routes, since they differ and change: every answer tells
// them. 10,000 answers of 401, 403 or 429 in 10 minutes get an IP address banned for a while.
func Discord() Preset {
	return Preset{
		Source:  "https://docs.discord.com/developers/topics/rate-limits",
		Checked: "2026-11-21",
		Hosts:   []string{"discord.com"},
		Rules: []outflow.Rule{
			{Name: "discord", Match: "discord.com/api/", When: notInteraction, Key: Credential("Authorization"), Limits: spaced(50, time.Second)},
			{Name: "discord route", Match: "discord.com/api/", Key: within(discordRoute), Identity: within(discordResource)},
		},
	}
}

func notInteraction(req *http.Request) bool { return discordPath(req)[0] != "interactions" }

// discordPath is the path's segments after /api, and its version if there is one.
func discordPath(req *http.Request) []string {
	s := strings.Split(strings.Trim(req.URL.Path, "/"), "/")[1:]
	if len(s) > 0 && len(s[0]) > 1 && s[0][0] == 'v' && digits(s[0][1:]) {
		s = s[1:]
	}
	if len(s) == 0 {
		return []string{""}
	}
	return s
}

// discordRoute is the method and the path, in which only major parameters remain as they are, and tokens as
// hashes.
func discordRoute(req *http.Request) string {
	s := discordPath(req)
	for i := 1; i < len(s); i++ {
		switch {
		case i == 1 && (s[0] == "channels" || s[0] == "guilds" || s[0] == "webhooks"):
			// the major parameter
		case i == 2 && s[0] == "webhooks":
			s[i] = hash(s[i])
		case i == 2 && s[0] == "interactions", i == 1 && s[0] == "invites":
			s[i] = "{token}"
		case s[i-1] == "reactions":
			return method(req) + " /" + strings.Join(s[:i], "/") + "/…" // whatever the emoji and whose
		case digits(s[i]):
			s[i] = "{id}"
		}
	}
	return method(req) + " /" + strings.Join(s, "/")
}

// discordResource is the major parameter, which Discord counts apart, whatever its name of the bucket.
func discordResource(req *http.Request) string {
	s := discordPath(req)
	if len(s) < 2 || s[0] != "channels" && s[0] != "guilds" && s[0] != "webhooks" {
		return ""
	}
	resource := s[0] + "/" + s[1]
	if s[0] == "webhooks" && len(s) > 2 {
		resource += "/" + hash(s[2])
	}
	return resource
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
