package presets

import (
	"maps"
	"net/http"
	"path"
	"time"

	"github.com/outflow-go/outflow"
	"github.com/outflow-go/outflow/limit"
)

// A SlackTier is how often a method of Slack's Web API may be called.
type SlackTier int

// Slack's tiers, and those of its methods that have a condition of their own.
const (
	SlackTier1   SlackTier = iota + 1 // 1 a minute
	SlackTier2                        // 20 a minute
	SlackTier3                        // 50 a minute
	SlackTier4                        // 100 a minute
	SlackHundred                      // "hundreds" a minute: 600
	SlackPost                         // one a second for each channel
)

// Slack has the limits of slack.com/api, by token and method:
//
//   - "slack tier 1" to "slack tier 4": 1, 20, 50 and 100 requests a minute, at any pace;
//   - "slack hundreds": 600 a minute, for auth.test, chat.getPermalink and blocks.validate;
//   - "slack post": 1 a second, for chat.postMessage, by channel; for all channels together there is a limit
//     of "several hundred a minute", too, of which that is all that is said;
//   - "slack webhooks": 1 a second for each incoming webhook at hooks.slack.com.
//
// Slack counts by app and workspace, which is a bot's token. "1+ a minute" is taken as 1; Slack allows
// short bursts on top of that without saying how many. A method's tier is that of Slack's own SDK for Java,
// whose figure 600 is, too. Methods can be given other tiers; those that aren't known, and most of those
// that are, have tier 2. So for an app that is sold outside of Slack's Marketplace:
//
//	presets.Slack(map[string]presets.SlackTier{
//		"conversations.history": presets.SlackTier1,
//		"conversations.replies": presets.SlackTier1,
//	})
func Slack(methods map[string]SlackTier) Preset {
	tiers := maps.Clone(slackTiers)
	maps.Copy(tiers, methods)
	tier := func(t SlackTier) func(*http.Request) bool {
		return func(req *http.Request) bool {
			if known, ok := tiers[slackMethod(req)]; ok {
				return known == t
			}
			return t == SlackTier2
		}
	}
	rule := func(name string, t SlackTier, perMinute int) outflow.Rule {
		return outflow.Rule{Name: name, Match: "slack.com/api/{method}", When: tier(t), Key: within(slackMethod), Limits: quota(perMinute, time.Minute)}
	}
	return Preset{
		Source:  "https://docs.slack.dev/apis/web-api/rate-limits",
		Checked: "2026-11-21",
		Hosts:   []string{"slack.com", "hooks.slack.com"},
		Rules: []outflow.Rule{
			rule("slack tier 1", SlackTier1, 1),
			rule("slack tier 2", SlackTier2, 20),
			rule("slack tier 3", SlackTier3, 50),
			rule("slack tier 4", SlackTier4, 100),
			rule("slack hundreds", SlackHundred, 600),
			{Name: "slack post", Match: "slack.com/api/{method}", When: tier(SlackPost), Key: within(slackChannel), Limits: []limit.Limit{limit.PerSecond(1)}},
			{Name: "slack webhooks", Match: "POST hooks.slack.com/", Key: outflow.KeyFunc(slackWebhook), Limits: []limit.Limit{limit.PerSecond(1)}},
		},
	}
}

func slackMethod(req *http.Request) string { return path.Base(req.URL.Path) }

// slackChannel is that of chat.postMessage, which is in the body.
func slackChannel(req *http.Request) string {
	return slackMethod(req) + " " + lookUp(req, "channel")
}

// slackWebhook is the path, all of which is a secret.
func slackWebhook(req *http.Request) string { return hash(req.URL.Path) }

// slackTiers are the methods that aren't of tier 2. From MethodsRateLimits in slackapi/java-slack-sdk.
var slackTiers = tiersOf(map[SlackTier][]string{
	SlackTier1: {
		"admin.apps.uninstall", "admin.conversations.restrictAccess.removeGroup", "admin.conversations.whitelist.remove",
		"admin.teams.create", "admin.usergroups.addChannels", "admin.users.unsupportedVersions.export", "apps.connections.open",
		"apps.manifest.create", "apps.manifest.delete", "apps.manifest.update", "apps.uninstall",
		"conversations.acceptSharedInvite", "conversations.approveSharedInvite", "conversations.declineSharedInvite",
		"conversations.listConnectInvites", "rtm.connect", "rtm.start", "team.externalTeams.disconnect", "tooling.tokens.rotate",
	},
	SlackTier3: {
		"admin.apps.activities.list", "admin.apps.config.set", "admin.functions.permissions.lookup", "admin.functions.permissions.set",
		"admin.roles.listAssignments", "admin.teams.admins.list", "admin.teams.list", "admin.teams.owners.list",
		"admin.teams.settings.info", "admin.teams.settings.setName", "admin.users.list", "apps.manifest.export",
		"apps.manifest.validate", "assistant.threads.setSuggestedPrompts", "assistant.threads.setTitle", "auth.revoke",
		"bookmarks.list", "bots.info", "canvases.access.delete", "canvases.access.set", "canvases.delete", "canvases.edit",
		"canvases.sections.lookup", "chat.delete", "chat.deleteScheduledMessage", "chat.meMessage", "chat.scheduleMessage",
		"chat.scheduledMessages.list", "chat.unfurl", "chat.update", "conversations.history", "conversations.info",
		"conversations.invite", "conversations.join", "conversations.kick", "conversations.leave", "conversations.mark",
		"conversations.open", "conversations.replies", "dnd.info", "files.delete", "files.list", "files.revokePublicURL",
		"files.sharedPublicURL", "functions.completeError", "functions.completeSuccess", "oauth.v2.exchange",
		"openid.connect.userInfo", "reactions.add", "reactions.get", "slackLists.access.delete", "slackLists.access.set",
		"slackLists.items.create", "slackLists.items.update", "stars.list", "team.billing.info", "team.info",
		"team.preferences.list", "team.profile.get", "users.getPresence", "users.identity", "users.lookupByEmail",
		"users.profile.set",
	},
	SlackTier4: {
		"admin.auth.policy.assignEntities", "admin.auth.policy.getEntities", "admin.auth.policy.removeEntities",
		"admin.users.getExpiration", "admin.users.session.clearSettings", "admin.users.session.getSettings",
		"admin.users.session.setSettings", "api.test", "apps.event.authorizations.list", "chat.appendStream",
		"chat.postEphemeral", "conversations.members", "dialog.open", "files.completeUploadExternal",
		"files.getUploadURLExternal", "files.info", "oauth.access", "oauth.token", "oauth.v2.access", "openid.connect.token",
		"slackLists.download.get", "users.info", "users.profile.get", "views.open", "views.publish", "views.push",
		"views.update",
	},
	SlackHundred: {"auth.test", "blocks.validate", "chat.getPermalink"},
	SlackPost:    {"chat.postMessage"},
})

func tiersOf(methods map[SlackTier][]string) map[string]SlackTier {
	tiers := map[string]SlackTier{}
	for tier, names := range methods {
		for _, name := range names {
			tiers[name] = tier
		}
	}
	return tiers
}
