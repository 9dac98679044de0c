package openwhiskgo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

const echo = "function main(params) { console.log('called'); return params }"

func TestInfoAndNamespaces(t *testing.T) {
	wsk := client(t)
	info, answer, err := wsk.Info.Get()
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 200)
	if info.Version == "" && info.Build == "" {
		t.Fatalf("the description has no version: %#v", info)
	}
	namespaces, _, err := wsk.Namespaces.List()
	ok(t, err)
	equal(t, "the namespaces", namespaces, []whisk.Namespace{{Name: "guest"}})
}

func TestActionsAsWritten(t *testing.T) {
	wsk := client(t)
	action := javascript("written", echo)
	action.Parameters = pairs("greeting", "hello", "rate", 1.5)
	action.Annotations = pairs("description", "says what it was told")
	action.Limits = &whisk.Limits{Timeout: number(5000), Memory: number(128), Logsize: number(1), Concurrency: number(1)}

	made, answer, err := wsk.Actions.Insert(action, false)
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 200)
	equal(t, "the name", made.Name, "written")
	equal(t, "the namespace", made.Namespace, "guest")
	equal(t, "the version", made.Version, "0.0.1")
	equal(t, "publish", *made.Publish, false)

	got, _, err := wsk.Actions.Get("written", true)
	ok(t, err)
	equal(t, "the code", *got.Exec.Code, echo)
	equal(t, "binary", *got.Exec.Binary, false)
	matches(t, "the kind", got.Exec.Kind, `^nodejs:\d+$`)
	same(t, "the limits", got.Limits, `{"timeout":5000,"memory":128,"logs":1,"concurrency":1}`)
	same(t, "the parameters", got.Parameters, `[{"key":"greeting","value":"hello"},{"key":"rate","value":1.5}]`)
	equal(t, "the annotation exec", got.Annotations.GetValue("exec"), interface{}(got.Exec.Kind))
	equal(t, "the description", got.Annotations.GetValue("description"), interface{}("says what it was told"))
	if got.Updated < 1_600_000_000_000 {
		t.Fatalf("updated is no time in ms: %d", got.Updated)
	}

	got, _, err = wsk.Actions.Get("written", false)
	ok(t, err)
	if got.Exec.Code != nil {
		t.Fatalf("code=false has the code %q", *got.Exec.Code)
	}

	_, answer, err = wsk.Actions.Insert(action, false)
	refused(t, answer, err, 409, `^resource already exists \(code \S+\)$`)

	// As `wsk action update NAME --param …` does: no exec, and annotations taken away by name.
	made, _, err = wsk.Actions.Insert(&whisk.Action{
		Name: "written", Parameters: pairs("greeting", "salut"), DelAnnotations: []string{"description"},
	}, true)
	ok(t, err)
	equal(t, "the version", made.Version, "0.0.2")
	got, _, err = wsk.Actions.Get("written", true)
	ok(t, err)
	equal(t, "the code", *got.Exec.Code, echo)
	same(t, "the parameters", got.Parameters, `[{"key":"greeting","value":"salut"}]`)
	equal(t, "the description", got.Annotations.GetValue("description"), nil)

	answer, err = wsk.Actions.Delete("written")
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 200)
	_, answer, err = wsk.Actions.Get("written", true)
	refused(t, answer, err, 404, `^The requested resource does not exist. \(code \S+\)$`)
	answer, err = wsk.Actions.Delete("written")
	refused(t, answer, err, 404, `^The requested resource does not exist. \(code \S+\)$`)
}

func TestActionsAreListed(t *testing.T) {
	wsk := client(t)
	_, _, err := wsk.Packages.Insert(&whisk.Package{Name: "shelf"}, true)
	ok(t, err)
	for _, name := range []string{"listed-1", "shelf/listed-2", "shelf/listed-3"} {
		_, _, err := wsk.Actions.Insert(javascript(name, echo), true)
		ok(t, err)
	}
	// wsk asks so for everything; a limit of 0 means as many as there may be.
	for _, options := range []*whisk.ActionListOptions{{Limit: 200}, {}} {
		actions, _, err := wsk.Actions.List("", options)
		ok(t, err)
		found := names(actions, func(action whisk.Action) string { return action.Namespace + "/" + action.Name })
		for _, name := range []string{"guest/listed-1", "guest/shelf/listed-2", "guest/shelf/listed-3"} {
			if _, is := found[name]; !is {
				t.Fatalf("%s is not among %d actions", name, len(actions))
			}
		}
		// `wsk action list` prints the kind from the annotation.
		matches(t, "the row", found["guest/listed-1"].ToSummaryRowString(), `^/guest/listed-1 +private nodejs:\d+\n$`)
	}
	actions, _, err := wsk.Actions.List("shelf", &whisk.ActionListOptions{Limit: 200})
	ok(t, err)
	equal(t, "the package's actions", len(actions), 2)
	equal(t, "the namespace", actions[0].Namespace, "guest/shelf")
	one, _, err := wsk.Actions.List("shelf", &whisk.ActionListOptions{Limit: 1, Skip: 1})
	ok(t, err)
	equal(t, "the second one", one[0].Name, actions[1].Name)
	_, answer, err := wsk.Actions.List("", &whisk.ActionListOptions{Limit: 201})
	refused(t, answer, err, 400, `limit`)
}

func TestActionsAreCalled(t *testing.T) {
	wsk := client(t)
	action := javascript("called", echo)
	action.Parameters = pairs("greeting", "hello")
	_, _, err := wsk.Actions.Insert(action, true)
	ok(t, err)

	result, answer, err := wsk.Actions.Invoke("called", map[string]interface{}{"name": "Ada"}, true, true)
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 200)
	same(t, "the result", result, `{"greeting":"hello","name":"Ada"}`)

	_, _, err = wsk.Actions.Insert(&whisk.Action{Name: "counted", Exec: &whisk.Exec{
		Kind: "python:default", Code: text("def main(params):\n    print('called')\n    return params"),
	}}, true)
	ok(t, err)
	record, answer, err := wsk.Actions.Invoke("counted", map[string]interface{}{"count": json.Number("12345678901234567890")}, true, false)
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 200)
	fields := record.(map[string]interface{})
	response := fields["response"].(map[string]interface{})
	equal(t, "success", response["success"], interface{}(true))
	equal(t, "the status", response["status"], interface{}("success"))
	// The library reads numbers as they are written.
	equal(t, "the number", response["result"].(map[string]interface{})["count"], interface{}(json.Number("12345678901234567890")))
	matches(t, "the id", fields["activationId"].(string), `^[0-9a-f]{32}$`)
	equal(t, "the logs", len(fields["logs"].([]interface{})), 0)

	record, answer, err = wsk.Actions.Invoke("called", map[string]interface{}{}, false, false)
	ok(t, err)
	equal(t, "the status", answer.StatusCode, 202)
	matches(t, "the id", record.(map[string]interface{})["activationId"].(string), `^[0-9a-f]{32}$`)

	// No arguments at all, as `wsk action invoke called -r` sends them.
	result, _, err = wsk.Actions.Invoke("called", nil, true, true)
	ok(t, err)
	same(t, "the result", result, `{"greeting":"hello"}`)

	_, answer, err = wsk.Actions.Invoke("nobody", nil, true, true)
	refused(t, answer, err, 404, `^The requested resource does not exist. \(code \S+\)$`)
}

func TestFailuresOfActions(t *testing.T) {
	wsk := client(t)
	for name, code := range map[string]string{
		"fails":  "function main() { return { error: 'no bread today' } }",
		"nested": "function main() { return { error: { message: 'no bread', cause: { oven: 'cold' } } } }",
		"throws": "function main() { throw new Error('the oven burns') }",
		"broken": "function main( {",
		"slow":   "function main() { return new Promise(done => setTimeout(done, 60000)) }",
	} {
		action := javascript(name, code)
		if name == "slow" {
			action.Limits = &whisk.Limits{Timeout: number(100)}
		}
		_, _, err := wsk.Actions.Insert(action, true)
		ok(t, err)
	}
	for _, expected := range []struct{ name, result, record string }{
		{"fails", `^no bread today$`, `^The following application error was received: no bread today$`},
		{"nested", `no bread`, `^The following application error was received: no bread$`},
		{"throws", `error has occurred|burns`, `^The following application error was received: .*(error has occurred|burns)`},
		{"broken", `.`, `^The following application error was received: .*(Initialization|nitializ|SyntaxError)`},
		{"slow", `^The action exceeded its time limits of 100 milliseconds( during initialization)?\.$`, `^The following .*: The action exceeded its time limits of 100 milliseconds( during initialization)?\.$`},
	} {
		t.Run(expected.name, func(t *testing.T) {
			_, answer, err := wsk.Actions.Invoke(expected.name, nil, true, true)
			refused(t, answer, err, 502, expected.result)
			equal(t, "an application's error", err.(*whisk.WskError).ApplicationError, true)
			record, answer, err := wsk.Actions.Invoke(expected.name, nil, true, false)
			refused(t, answer, err, 502, expected.record)
			fields := record.(map[string]interface{})
			equal(t, "success", fields["response"].(map[string]interface{})["success"], interface{}(false))
			// The record is read without an error: it is the activation that failed, not the request.
			stored, _, err := wsk.Activations.Get(fields["activationId"].(string))
			ok(t, err)
			equal(t, "success", stored.Response.Success, false)
			status := "action developer error"
			if expected.name == "fails" || expected.name == "nested" {
				status = "application error"
			}
			equal(t, "the status", stored.Response.Status, status)
		})
	}
}

func TestSequencesAndWebActions(t *testing.T) {
	wsk := client(t)
	_, _, err := wsk.Actions.Insert(javascript("twice", "function main({ n }) { return { n: n * 2 } }"), true)
	ok(t, err)
	sequence := &whisk.Action{Name: "eightfold", Exec: &whisk.Exec{
		Kind: "sequence", Components: []string{"/_/twice", "/_/twice", "/guest/twice"},
	}}
	made, _, err := wsk.Actions.Insert(sequence, true)
	ok(t, err)
	equal(t, "the components", made.Exec.Components, []string{"/guest/twice", "/guest/twice", "/guest/twice"})
	equal(t, "the kind", made.Exec.Kind, "sequence")
	result, _, err := wsk.Actions.Invoke("eightfold", map[string]interface{}{"n": 5}, true, true)
	ok(t, err)
	same(t, "the result", result, `{"n":40}`)

	_, answer, err := wsk.Actions.Insert(&whisk.Action{Name: "missing-step", Exec: &whisk.Exec{
		Kind: "sequence", Components: []string{"/_/no-such-step"},
	}}, true)
	refused(t, answer, err, 400, `^Sequence component does not exist. \(code \S+\)$`)

	web := javascript("page", "function main({ name }) { return { body: `<b>${name}</b>`, headers: { 'x-page': '1' }, statusCode: 201 } }")
	web.Annotations = pairs("web-export", true, "raw-http", false, "final", true)
	_, _, err = wsk.Actions.Insert(web, true)
	ok(t, err)
	got, _, err := wsk.Actions.Get("page", false)
	ok(t, err)
	equal(t, "a web action", got.WebAction(), true)
	address, err := got.ActionURL(serverURL, "/api", "v1", "")
	ok(t, err)
	equal(t, "the URL that wsk prints", address, serverURL+"/api/v1/web/guest/default/page")
	status, body := raw(t, "GET", address+"?name=Ada", "")
	equal(t, "the status", status, 201)
	equal(t, "the body", body, "<b>Ada</b>")
}

func TestWhatIsWrongWithActions(t *testing.T) {
	wsk := client(t)
	bad := javascript("bad", echo)
	bad.Exec.Kind = "cobol:68"
	_, answer, err := wsk.Actions.Insert(bad, true)
	refused(t, answer, err, 400, `^The request content was malformed:\nThe specified runtime 'cobol:68' is not supported by this platform\. Valid values are: .*'nodejs:\d+'.*\. \(code \S+\)$`)

	bad = javascript("bad", echo)
	bad.Limits = &whisk.Limits{Memory: number(1 << 20)}
	_, answer, err = wsk.Actions.Insert(bad, true)
	refused(t, answer, err, 400, `memory`)

	bad = javascript("in/valid/name", echo)
	_, answer, err = wsk.Actions.Insert(bad, true)
	equal(t, "the status", answer.StatusCode/100, 4)
	if err == nil {
		t.Fatal("a name with two slashes was accepted")
	}

	_, answer, err = wsk.Actions.Insert(javascript("no-such-package/action", echo), true)
	refused(t, answer, err, 404, `^The requested resource 'guest/no-such-package' does not exist\. \(code \S+\)$`)

	_, _, err = wsk.Actions.Insert(javascript("ample", "function main() { return {} }"), true)
	ok(t, err)
	_, answer, err = wsk.Actions.Invoke("ample", map[string]interface{}{"text": strings.Repeat("x", 1<<20)}, true, true)
	refused(t, answer, err, 413, `^Request larger than allowed: 1048588 > 1048576 bytes\. \(code \S+\)$`)
	_, answer, err = wsk.Actions.Invoke("ample", []int{1}, true, true)
	refused(t, answer, err, 400, `.`)
}

func TestWhoAsks(t *testing.T) {
	_, answer, err := clientWith(t, "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:wrong", "_").Actions.List("", nil)
	refused(t, answer, err, 401, `^The supplied authentication is invalid \(code \S+\)$`)
	_, answer, err = clientWith(t, guest, "somebody").Actions.List("", nil)
	refused(t, answer, err, 403, `^The supplied authentication is not authorized to access 'somebody'\. \(code \S+\)$`)
	// The library does not even ask without a key, and `wsk` shows how to give it.
	_, _, err = clientWith(t, "", "_").Actions.List("", nil)
	equal(t, "the exit code", err.(*whisk.WskError).ExitCode, whisk.EXIT_CODE_ERR_USAGE)
}
