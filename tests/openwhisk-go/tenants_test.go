package openwhiskgo

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

func TestAnotherNamespace(t *testing.T) {
	said := run(t, nil, os.Getenv("FLINT_BIN"), "namespace", "create", "neighbour", "--data-dir", shared.data())
	key := regexp.MustCompile(`[0-9a-f-]{36}:\w{64}`).FindString(said)
	theirs, mine := clientWith(t, key, "_"), clientWith(t, guest, "neighbour")
	namespaces, _, err := theirs.Namespaces.List()
	ok(t, err)
	equal(t, "the namespaces", namespaces, []whisk.Namespace{{Name: "neighbour"}})
	theirs.Config.Namespace = "_" // the library forgets it when it lists namespaces
	for name, published := range map[string]bool{"open": true, "closed": false} {
		_, _, err = theirs.Packages.Insert(&whisk.Package{Name: name, Publish: flag(published), Parameters: pairs("from", name)}, true)
		ok(t, err)
		_, _, err = theirs.Actions.Insert(javascript(name+"/tool", echo), true)
		ok(t, err)
	}
	// What is published is seen, called and bound; nothing else is, and nothing is written there.
	result, _, err := mine.Actions.Invoke("open/tool", nil, true, true)
	ok(t, err)
	same(t, "the result", result, `{"from":"open"}`)
	packages, _, err := mine.Packages.List(nil)
	ok(t, err)
	equal(t, "packages that are seen", len(packages), 1)
	_, _, err = client(t).Packages.Insert(&whisk.BindingPackage{
		Name: "borrowed", Binding: whisk.Binding{Namespace: "neighbour", Name: "open"}, Parameters: pairs("from", "me"),
	}, true)
	ok(t, err)
	result, _, err = client(t).Actions.Invoke("borrowed/tool", nil, true, true)
	ok(t, err)
	same(t, "the result", result, `{"from":"me"}`)

	const forbidden = `^The supplied authentication is not authorized to access '?\S+?'?\. \(code \S+\)$`
	_, answer, err := mine.Actions.Invoke("closed/tool", nil, true, true)
	refused(t, answer, err, 403, forbidden)
	_, answer, err = mine.Packages.Get("closed")
	refused(t, answer, err, 403, forbidden)
	_, answer, err = mine.Packages.Get("missing")
	refused(t, answer, err, 403, forbidden)
	_, answer, err = mine.Actions.Insert(javascript("open/mine", echo), true)
	refused(t, answer, err, 403, forbidden)
	_, answer, err = mine.Triggers.Fire("any", nil)
	refused(t, answer, err, 403, forbidden)
	_, answer, err = mine.Rules.List(nil)
	refused(t, answer, err, 403, forbidden)
}

func TestNamesThatNeedEncoding(t *testing.T) {
	wsk := client(t)
	for _, name := range []string{"with space", "a@b.example", "under_score-and.dot", "dot..dot"} {
		_, _, err := wsk.Packages.Insert(&whisk.Package{Name: name}, true)
		ok(t, err)
		full := name + "/" + name
		made, _, err := wsk.Actions.Insert(javascript(full, echo), true)
		ok(t, err)
		equal(t, "the name", made.Name, name)
		equal(t, "the namespace", made.Namespace, "guest/"+name)
		result, _, err := wsk.Actions.Invoke(full, map[string]interface{}{"it": name}, true, true)
		ok(t, err)
		same(t, "the result", result, fmt.Sprintf(`{"it":%q}`, name))
		listed, _, err := wsk.Actions.List(name, nil)
		ok(t, err)
		equal(t, "actions", len(listed), 1)
		_, err = wsk.Actions.Delete(full)
		ok(t, err)
		_, err = wsk.Packages.Delete(name)
		ok(t, err)
	}
}

// The library as `wsk` starts it: from ~/.wskprops.
func TestProperties(t *testing.T) {
	home := t.TempDir()
	text := fmt.Sprintf("APIHOST=%s\nAUTH=%s\nAPIVERSION=v1\nNAMESPACE=guest\n", serverURL, guest)
	ok(t, os.WriteFile(filepath.Join(home, ".wskprops"), []byte(text), 0o600))
	t.Setenv("HOME", home)
	wsk, err := whisk.NewClient(http.DefaultClient, nil)
	ok(t, err)
	equal(t, "the namespace", wsk.Config.Namespace, "guest")
	_, _, err = wsk.Actions.List("", nil)
	ok(t, err)
}

// A call that outlasts `limits.max_blocking_wait` is answered with 202, which wsk takes for what it is.
func TestACallThatOutlastsItsCaller(t *testing.T) {
	impatient, err := start("FLINT_LIMITS__MAX_BLOCKING_WAIT=500ms")
	ok(t, err)
	defer os.RemoveAll(impatient.directory)
	defer func() {
		if err := impatient.end(); err != nil {
			t.Error(err)
		}
	}()
	wsk := impatient.client(t, guest, "_")
	_, _, err = wsk.Actions.Insert(javascript("long", "function main() { return new Promise(done => setTimeout(() => done({ late: true }), 2000)) }"), true)
	ok(t, err)
	record, answer, err := wsk.Actions.Invoke("long", nil, true, false)
	equal(t, "the status", answer.StatusCode, 202)
	late := err.(*whisk.WskError)
	equal(t, "a timeout", late.TimedOut, true)
	equal(t, "the exit code", late.ExitCode, whisk.EXIT_CODE_TIMED_OUT)
	id := record.(map[string]interface{})["activationId"].(string)
	var result *whisk.Response
	eventually(t, "the result", func() bool {
		result, _, err = wsk.Activations.Result(id)
		return err == nil
	})
	same(t, "the result", result.Result, `{"late":true}`)
}
