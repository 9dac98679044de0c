package openwhiskgo

import (
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

const missing = `^The requested resource does not exist. \(code \S+\)$`

func TestPackagesAndBindings(t *testing.T) {
	wsk := client(t)
	made, _, err := wsk.Packages.Insert(&whisk.Package{
		Name: "tools", Publish: flag(true), Parameters: pairs("unit", "m", "size", 3), Annotations: pairs("description", "tools"),
	}, false)
	ok(t, err)
	equal(t, "the version", made.Version, "0.0.1")
	_, answer, err := wsk.Packages.Insert(&whisk.Package{Name: "tools"}, false)
	refused(t, answer, err, 409, `^resource already exists \(code \S+\)$`)
	_, _, err = wsk.Actions.Insert(javascript("tools/measure", echo), true)
	ok(t, err)
	feed := javascript("tools/watch", echo)
	feed.Annotations = pairs("feed", true)
	_, _, err = wsk.Actions.Insert(feed, true)
	ok(t, err)

	got, _, err := wsk.Packages.Get("tools")
	ok(t, err)
	equal(t, "the name", got.Name, "tools")
	equal(t, "the namespace", got.Namespace, "guest")
	equal(t, "publish", *got.Publish, true)
	same(t, "the parameters", got.Parameters, `[{"key":"unit","value":"m"},{"key":"size","value":3}]`)
	equal(t, "the description", got.Annotations.GetValue("description"), interface{}("tools"))
	equal(t, "actions", len(got.Actions), 1)
	equal(t, "feeds", len(got.Feeds), 1)
	equal(t, "the action", got.Actions[0].Name, "measure")
	equal(t, "the feed", got.Feeds[0].Name, "watch")

	bound, _, err := wsk.Packages.Insert(&whisk.BindingPackage{
		Name: "mine", Parameters: pairs("unit", "inch"), Binding: whisk.Binding{Namespace: "_", Name: "tools"},
	}, false)
	ok(t, err)
	equal(t, "the binding", *bound.Binding, whisk.Binding{Namespace: "guest", Name: "tools"})
	got, _, err = wsk.Packages.Get("mine")
	ok(t, err)
	equal(t, "the binding", *got.Binding, whisk.Binding{Namespace: "guest", Name: "tools"})
	equal(t, "the unit", got.Parameters.GetValue("unit"), interface{}("inch"))
	equal(t, "the bound package's size", got.Parameters.GetValue("size"), interface{}(number64(3)))
	equal(t, "actions of the bound package", len(got.Actions), 1)
	result, _, err := wsk.Actions.Invoke("mine/measure", map[string]interface{}{"what": "table"}, true, true)
	ok(t, err)
	same(t, "the result", result, `{"unit":"inch","size":3,"what":"table"}`)

	packages, _, err := wsk.Packages.List(&whisk.PackageListOptions{})
	ok(t, err)
	found := names(packages, func(entity whisk.Package) string { return entity.Name })
	matches(t, "the row", found["tools"].ToSummaryRowString(), `^/guest/tools +shared\n$`)
	matches(t, "the row", found["mine"].ToSummaryRowString(), `^/guest/mine +private\n$`)
	equal(t, "the listed binding", *found["mine"].Binding, whisk.Binding{Namespace: "guest", Name: "tools"})

	// What `wsk package list /whisk.system` shows, and `wsk package get /whisk.system/alarms`.
	system := clientWith(t, guest, "whisk.system")
	packages, _, err = system.Packages.List(&whisk.PackageListOptions{})
	ok(t, err)
	if _, is := names(packages, func(entity whisk.Package) string { return entity.Name })["alarms"]; !is {
		t.Fatalf("whisk.system has no alarms: %v", packages)
	}
	alarms, _, err := system.Packages.Get("alarms")
	ok(t, err)
	if _, is := names(alarms.Feeds, func(feed whisk.Action) string { return feed.Name })["interval"]; !is {
		t.Fatalf("alarms has no feed interval: %v", alarms.Feeds)
	}

	answer, err = wsk.Packages.Delete("tools")
	refused(t, answer, err, 409, `^Package not empty \(contains 2 entities\)`)
	for _, action := range []string{"tools/measure", "tools/watch"} {
		_, err = wsk.Actions.Delete(action)
		ok(t, err)
	}
	for _, name := range []string{"mine", "tools"} {
		answer, err = wsk.Packages.Delete(name)
		ok(t, err)
		equal(t, "the status", answer.StatusCode, 200)
	}
	_, answer, err = wsk.Packages.Get("tools")
	refused(t, answer, err, 404, missing)
	_, answer, err = wsk.Packages.Insert(&whisk.BindingPackage{Name: "loose", Binding: whisk.Binding{Namespace: "_", Name: "tools"}}, true)
	refused(t, answer, err, 400, `^Binding references a package that does not exist\. \(code \S+\)$`)
}

func TestTriggersAndRules(t *testing.T) {
	wsk := client(t)
	_, _, err := wsk.Actions.Insert(javascript("reacts", echo), true)
	ok(t, err)
	trigger, _, err := wsk.Triggers.Insert(&whisk.Trigger{
		Name: "happens", Parameters: pairs("where", "here"), Annotations: pairs("description", "something"),
	}, false)
	ok(t, err)
	equal(t, "the namespace", trigger.Namespace, "guest")
	equal(t, "the version", trigger.Version, "0.0.1")
	_, answer, err := wsk.Triggers.Insert(&whisk.Trigger{Name: "happens"}, false)
	refused(t, answer, err, 409, `^resource already exists \(code \S+\)$`)

	// Nothing listens yet: 204, and wsk shows no activation.
	fired, answer, err := wsk.Triggers.Fire("happens", map[string]interface{}{})
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 204)
	equal(t, "the id", fired.ActivationId, "")

	rule, _, err := wsk.Rules.Insert(&whisk.Rule{Name: "follows", Trigger: "/_/happens", Action: "/_/reacts"}, false)
	ok(t, err)
	equal(t, "the status", rule.Status, "active")
	same(t, "the trigger", rule.Trigger, `{"name":"happens","path":"guest"}`)
	same(t, "the action", rule.Action, `{"name":"reacts","path":"guest"}`)
	_, answer, err = wsk.Rules.Insert(&whisk.Rule{Name: "follows", Trigger: "/_/happens", Action: "/_/reacts"}, false)
	refused(t, answer, err, 409, `^resource already exists \(code \S+\)$`)
	got, _, err := wsk.Triggers.Get("happens")
	ok(t, err)
	same(t, "the parameters", got.Parameters, `[{"key":"where","value":"here"}]`)
	same(t, "the rules", got.Rules, `{"guest/follows":{"action":{"name":"reacts","path":"guest"},"status":"active"}}`)

	fired, answer, err = wsk.Triggers.Fire("happens", map[string]interface{}{"when": "now"})
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 202)
	var record *whisk.Activation
	eventually(t, "the trigger's record", func() bool {
		record, _, err = wsk.Activations.Get(fired.ActivationId)
		return err == nil && len(record.Logs) == 1
	})
	equal(t, "the name", record.Name, "happens")
	same(t, "the result", record.Response.Result, `{"when":"now"}`)
	for _, part := range []string{`"rule":"guest/follows"`, `"action":"guest/reacts"`, `"success":true`, `"statusCode":0`} {
		if !strings.Contains(record.Logs[0], part) {
			t.Fatalf("the trigger's log %s has no %s", record.Logs[0], part)
		}
	}
	said := startedBy(t, fired.ActivationId).Response.Result.(map[string]interface{})
	equal(t, "when", said["when"], interface{}("now"))
	equal(t, "where", said["where"], interface{}("here"))

	// `wsk rule disable` and `enable`.
	for _, state := range []string{"inactive", "active"} {
		_, answer, err = wsk.Rules.SetState("follows", state)
		ok(t, err)
		equal(t, "the status", answer.StatusCode, 200)
		rule, _, err = wsk.Rules.Get("follows")
		ok(t, err)
		equal(t, "the state", rule.Status, state)
		_, answer, err = wsk.Triggers.Fire("happens", nil)
		ok(t, err)
		equal(t, "the status", answer.StatusCode, map[string]int{"inactive": 204, "active": 202}[state])
	}

	rules, _, err := wsk.Rules.List(&whisk.RuleListOptions{})
	ok(t, err)
	if _, is := names(rules, func(rule whisk.Rule) string { return rule.Name })["follows"]; !is {
		t.Fatalf("the rule is not listed: %v", rules)
	}
	triggers, _, err := wsk.Triggers.List(&whisk.TriggerListOptions{})
	ok(t, err)
	listed, is := names(triggers, func(trigger whisk.Trigger) string { return trigger.Name })["happens"]
	if !is {
		t.Fatalf("the trigger is not listed: %v", triggers)
	}
	// wskdeploy finds in lists what it manages, and ends where a trigger has no annotations.
	equal(t, "the description", listed.Annotations.GetValue("description"), interface{}("something"))

	_, answer, err = wsk.Rules.Insert(&whisk.Rule{Name: "dangles", Trigger: "/_/happens", Action: "/_/nobody"}, false)
	refused(t, answer, err, 400, `^action /guest/nobody does not exist \(code \S+\)$`)
	_, err = wsk.Rules.Delete("follows")
	ok(t, err)
	_, answer, err = wsk.Rules.Get("follows")
	refused(t, answer, err, 404, missing)
	_, answer, err = wsk.Rules.SetState("follows", "active")
	refused(t, answer, err, 404, missing)
	deleted, answer, err := wsk.Triggers.Delete("happens")
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 200)
	equal(t, "the name", deleted.Name, "happens")
	_, answer, err = wsk.Triggers.Fire("happens", nil)
	refused(t, answer, err, 404, missing)
}

// startedBy is the call that a fired trigger made, which its record's log names.
func startedBy(t *testing.T, trigger string) (call *whisk.Activation) {
	t.Helper()
	wsk := client(t)
	eventually(t, "the call of a trigger", func() bool {
		record, _, err := wsk.Activations.Get(trigger)
		if err != nil || len(record.Logs) != 1 {
			return false
		}
		line := jsonOf(t, record.Logs[0]).(map[string]interface{})
		call, _, err = wsk.Activations.Get(line["activationId"].(string))
		return err == nil
	})
	return call
}

func TestActivations(t *testing.T) {
	wsk := client(t)
	_, _, err := wsk.Packages.Insert(&whisk.Package{Name: "kept"}, true)
	ok(t, err)
	action := javascript("kept/records", "function main({ n }) { console.log('out', n); console.error('err', n); return { n } }")
	_, _, err = wsk.Actions.Insert(action, true)
	ok(t, err)
	ids := []string{}
	for n := 0; n < 3; n++ {
		record, _, err := wsk.Actions.Invoke("kept/records", map[string]interface{}{"n": n}, true, false)
		ok(t, err)
		ids = append(ids, record.(map[string]interface{})["activationId"].(string))
	}

	record, _, err := wsk.Activations.Get(ids[1])
	ok(t, err)
	equal(t, "the id", record.ActivationID, ids[1])
	equal(t, "the namespace", record.Namespace, "guest")
	equal(t, "the name", record.Name, "records")
	equal(t, "the subject", record.Subject, "guest")
	equal(t, "the version", record.Version, "0.0.1")
	equal(t, "the status", record.Response.Status, "success")
	equal(t, "success", record.Response.Success, true)
	same(t, "the result", record.Response.Result, `{"n":1}`)
	equal(t, "publish", *record.Publish, false)
	equal(t, "the path", record.Annotations.GetValue("path"), interface{}("guest/kept/records"))
	matches(t, "the kind", record.Annotations.GetValue("kind").(string), `^nodejs:`)
	if record.Start < 1_600_000_000_000 || record.End < record.Start || record.Duration < 0 {
		t.Fatalf("start, end and duration are %d, %d and %d", record.Start, record.End, record.Duration)
	}
	logs, _, err := wsk.Activations.Logs(ids[1])
	ok(t, err)
	equal(t, "lines", len(logs.Logs), 2)
	matches(t, "the log", strings.Join(logs.Logs, "\n"), `(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z +stdout: out 1$`)
	matches(t, "the log", strings.Join(logs.Logs, "\n"), `(?m)^\S+Z +stderr: err 1$`)
	result, _, err := wsk.Activations.Result(ids[1])
	ok(t, err)
	equal(t, "the status", result.Status, "success")
	same(t, "the result", result.Result, `{"n":1}`)

	// As `wsk activation list kept/records`, and poll, which asks for everything since the last one.
	listed, _, err := wsk.Activations.List(&whisk.ActivationListOptions{Name: "kept/records", Limit: 2})
	ok(t, err)
	equal(t, "the newest", []string{listed[0].ActivationID, listed[1].ActivationID}, []string{ids[2], ids[1]})
	equal(t, "no response in lists", listed[0].Response.Result, nil)
	equal(t, "the status code", listed[0].StatusCode, 0)
	listed, _, err = wsk.Activations.List(&whisk.ActivationListOptions{Name: "kept/records", Limit: 10, Skip: 2})
	ok(t, err)
	equal(t, "the oldest", listed[0].ActivationID, ids[0])
	for _, options := range []whisk.ActivationListOptions{
		{Name: "kept/records", Since: record.Start, Upto: record.Start, Docs: true},
		{Since: record.Start, Upto: record.Start, Docs: true},
	} {
		listed, _, err = wsk.Activations.List(&options)
		ok(t, err)
		found := names(listed, func(activation whisk.Activation) string { return activation.ActivationID })[ids[1]]
		same(t, "the result", found.Response.Result, `{"n":1}`)
		equal(t, "lines", len(found.Logs), 2)
	}
	last, _, err := wsk.Activations.Get(ids[2])
	ok(t, err)
	listed, _, err = wsk.Activations.List(&whisk.ActivationListOptions{Name: "kept/records", Since: last.Start + 1})
	ok(t, err)
	equal(t, "later ones", len(listed), 0)
	count, _, err := wsk.Activations.Count(&whisk.ActivationCountOptions{Name: "kept/records"})
	ok(t, err)
	equal(t, "the count", count.Activations, int64(3))

	// What `wsk activation list` prints.
	row := whisk.ActivationFilteredRow{Row: *record, RowFmt: "%d-%02d-%02d %02d:%02d:%02d %s %s %s %v %s %-"}
	matches(t, "the row", row.ToSummaryRowString(), ids[1]+` nodejs:\d+ (warm|cold) [\d.]+m?s success guest/records:0\.0\.1\n$`)

	_, answer, err := wsk.Activations.Get(strings.Repeat("0", 32))
	refused(t, answer, err, 404, missing)
	_, answer, err = wsk.Activations.Get("123")
	refused(t, answer, err, 400, `Activation id length is 3 but must be 32\.`)
	_, answer, err = wsk.Activations.List(&whisk.ActivationListOptions{Name: "a/b/c"})
	refused(t, answer, err, 400, `Parameter may be a 'simple' name or 'package-name/simple' name: a/b/c`)
}

func TestOtherRoutes(t *testing.T) {
	wsk := client(t)
	// Old servers had these; OpenWhisk's own has them no more. wsk says so.
	_, answer, err := wsk.Packages.Refresh()
	equal(t, "the status", answer.StatusCode/100, 4)
	if err == nil {
		t.Fatal("a refresh was accepted")
	}
	answer, err = wsk.Sdks.Install("blackbox-0.1.0.tar.gz")
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 404)
	answer.Body.Close()
}
