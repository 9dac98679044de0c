package openwhiskgo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

// wskdeploy runs it as somebody who has a .wskprops.
func wskdeploy(t *testing.T, arguments ...string) string {
	t.Helper()
	home := t.TempDir()
	properties := fmt.Sprintf("APIHOST=%s\nAUTH=%s\nNAMESPACE=_\nAPIGW_ACCESS_TOKEN=DUMMY TOKEN\n", serverURL, guest)
	ok(t, os.WriteFile(filepath.Join(home, ".wskprops"), []byte(properties), 0o600))
	return run(t, []string{"HOME=" + home}, os.Getenv("WSKDEPLOY"), arguments...)
}

func flint(t *testing.T, arguments ...string) string {
	t.Helper()
	return run(t, []string{"FLINT_URL=" + serverURL, "FLINT_AUTH=" + guest}, os.Getenv("FLINT_BIN"), arguments...)
}

func run(t *testing.T, environment []string, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Env = append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(program), arguments, err, output)
	}
	return string(output)
}

// theProject is a copy that a test may change: wskdeploy leaves archives beside directories that it packs.
func theProject(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	run(t, nil, "cp", "-r", "project/.", directory)
	return directory
}

func contains(t *testing.T, what, said string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Fatalf("%s has no %q:\n%s", what, part, said)
		}
	}
}

// theBakeryWorks calls what the manifest describes.
func theBakeryWorks(t *testing.T) {
	t.Helper()
	wsk := client(t)
	price, _, err := wsk.Actions.Invoke("bakery/price", nil, true, true)
	ok(t, err)
	same(t, "the price", price, `{"text":"3.75 EUR","organic":true,"baker":{"name":"Ada","since":1843},"note":""}`)
	said, _, err := wsk.Actions.Invoke("bakery/order", map[string]interface{}{"pieces": 4}, true, true)
	ok(t, err)
	same(t, "the order", said, `{"said":"5 eur","by":"Ada","note":""}`)
	packed, _, err := wsk.Actions.Invoke("bakery/packed", nil, true, true)
	ok(t, err)
	same(t, "the packed action's result", packed, `{"shape":"round"}`)
	echoed, _, err := wsk.Actions.Invoke("bakery-utils/echo", map[string]interface{}{"a": 1}, true, true)
	ok(t, err)
	same(t, "the dependency's result", echoed, `{"a":1}`)

	got, _, err := wsk.Actions.Get("bakery/price", false)
	ok(t, err)
	equal(t, "the time limit", *got.Limits.Timeout, 20000)
	equal(t, "the memory", *got.Limits.Memory, 128)
	equal(t, "the log limit", *got.Limits.Logsize, 1)
	same(t, "the annotation", got.Annotations.GetValue("kept"), `{"in":["minutes",5]}`)

	status, body := raw(t, "GET", serverURL+"/api/v1/web/guest/bakery/page?dish=cake", "")
	equal(t, "the status", status, 200)
	equal(t, "the page", body, "<p>cake</p>")
	options := whisk.ApiListRequestOptions{ApiOptions: gateway()}
	options.ApiBasePath = "/bakery"
	apis, _, err := wsk.Apis.List(&options)
	ok(t, err)
	equal(t, "APIs", len(apis.Apis), 1)
	equal(t, "the API's name", apis.Apis[0].ApiValue.Swagger.Info.Title, "bakery-api")
	status, body = raw(t, "GET", apis.Apis[0].ApiValue.BaseUrl+"/menu", "")
	equal(t, "the status", status, 200)
	equal(t, "the menu", body, "<p>bread</p>")

	for _, name := range []string{"bakery-on-order", "bakery-on-oven"} {
		rule, _, err := wsk.Rules.Get(name)
		ok(t, err)
		equal(t, "the rule's state", rule.Status, "active")
	}
	fired, _, err := wsk.Triggers.Fire("bakery-order", nil)
	ok(t, err)
	same(t, "the order", startedBy(t, fired.ActivationId).Response.Result, `{"said":"8.75 eur","by":"Ada","note":""}`)
	// The feed knows the trigger: alarms answer for it.
	oven, _, err := clientWith(t, guest, "whisk.system").Actions.Invoke("alarms/interval", map[string]interface{}{
		"lifecycleEvent": "READ", "triggerName": "/guest/bakery-oven", "authKey": guest,
	}, true, true)
	ok(t, err)
	equal(t, "the interval", fmt.Sprint(oven.(map[string]interface{})["config"].(map[string]interface{})["minutes"]), "60")
}

func nothingOfTheBakery(t *testing.T) {
	t.Helper()
	wsk := client(t)
	for name, get := range map[string]func(string) error{
		"bakery":          func(name string) error { _, _, err := wsk.Packages.Get(name); return err },
		"bakery-utils":    func(name string) error { _, _, err := wsk.Packages.Get(name); return err },
		"bakery-order":    func(name string) error { _, _, err := wsk.Triggers.Get(name); return err },
		"bakery-oven":     func(name string) error { _, _, err := wsk.Triggers.Get(name); return err },
		"bakery-on-order": func(name string) error { _, _, err := wsk.Rules.Get(name); return err },
		"bakery-on-oven":  func(name string) error { _, _, err := wsk.Rules.Get(name); return err },
	} {
		err := get(name)
		if err == nil || err.(*whisk.WskError).ExitCode != 404-256 {
			t.Fatalf("%s is still there: %v", name, err)
		}
	}
	options := whisk.ApiListRequestOptions{ApiOptions: gateway()}
	options.ApiBasePath = "/bakery"
	apis, _, err := wsk.Apis.List(&options)
	ok(t, err)
	equal(t, "APIs", len(apis.Apis), 0)
}

func TestWskdeploy(t *testing.T) {
	project := theProject(t)
	preview := wskdeploy(t, "--project", project, "--preview")
	contains(t, "the preview", preview, "bakery", "price", "order", "bakery-oven", "bakery-on-order")
	nothingOfTheBakery(t)
	report := wskdeploy(t, "report", "--project", project)
	contains(t, "the report", report, "currency", "pieces")

	for time := 0; time < 2; time++ {
		contains(t, "the deployment", wskdeploy(t, "--project", project), "Deployment completed successfully")
		theBakeryWorks(t)
	}
	contains(t, "the end", wskdeploy(t, "undeploy", "--project", project), "Undeployment completed successfully")
	nothingOfTheBakery(t)
}

func TestWskdeploySyncsAndExports(t *testing.T) {
	project := theProject(t)
	contains(t, "the deployment", wskdeploy(t, "sync", "--project", project), "Deployment completed successfully")
	theBakeryWorks(t)
	wsk := client(t)
	got, _, err := wsk.Packages.Get("bakery")
	ok(t, err)
	equal(t, "the project's mark", got.Annotations.GetValue("whisk-managed").(map[string]interface{})["projectName"], interface{}("bakery"))

	exported := filepath.Join(t.TempDir(), "exported.yaml")
	contains(t, "the export", wskdeploy(t, "export", "--projectname", "bakery", "--manifest", exported), "Manifest exported")
	manifest, err := os.ReadFile(exported)
	ok(t, err)
	contains(t, "the exported manifest", string(manifest), "price", "say", "order", "bakery-order", "bakery-oven", "bakery-on-order",
		"bakery-utils", "/whisk.system/utils", "menu")
	// What only the feed knows: wskdeploy asks it.
	matches(t, "the exported trigger", string(manifest), `minutes:\s+value: 60`)
	code, err := os.ReadFile(filepath.Join(filepath.Dir(exported), "bakery/price.js"))
	ok(t, err)
	contains(t, "the exported code", string(code), "pieces * each")

	// What the manifest does not have any more goes; what others made stays.
	_, _, err = wsk.Actions.Insert(javascript("bakery/foreign", echo), true)
	ok(t, err)
	path := filepath.Join(project, "manifest.yaml")
	text, err := os.ReadFile(path)
	ok(t, err)
	smaller := strings.Replace(string(text), `        bakery-on-oven:
          trigger: bakery-oven
          action: bakery/say
`, "", 1)
	smaller = strings.Replace(smaller, `        packed:
          function: packed
          runtime: nodejs:default
`, "", 1)
	ok(t, os.WriteFile(path, []byte(smaller), 0o644))
	contains(t, "the second one", wskdeploy(t, "sync", "--project", project), "Deployment completed successfully")
	_, answer, err := wsk.Rules.Get("bakery-on-oven")
	refused(t, answer, err, 404, missing)
	_, answer, err = wsk.Actions.Get("bakery/packed", false)
	refused(t, answer, err, 404, missing)
	_, _, err = wsk.Actions.Get("bakery/foreign", false)
	ok(t, err)
	_, err = wsk.Actions.Delete("bakery/foreign")
	ok(t, err)
	wskdeploy(t, "undeploy", "--projectname", "bakery")
	options := whisk.ApiDeleteRequestOptions(gateway())
	options.ApiBasePath = "/bakery"
	// Undeploying by the project's name leaves its APIs, as wskdeploy does everywhere.
	_, err = wsk.Apis.Delete(&whisk.ApiDeleteRequest{}, &options)
	ok(t, err)
	nothingOfTheBakery(t)
}

func TestFlintDeploysTheSame(t *testing.T) {
	project := theProject(t)
	manifest := filepath.Join(project, "manifest.yaml")
	flint(t, "deploy", "-f", manifest)
	theBakeryWorks(t)
	second := flint(t, "deploy", "-f", manifest)
	matches(t, "the second deployment", second, `\d+ unchanged`)
	if strings.Contains(second, "to update") || strings.Contains(second, "to create") {
		t.Fatalf("the second deployment changes things:\n%s", second)
	}
	// One deploys over the other, and undeploys what the other deployed.
	contains(t, "wskdeploy's", wskdeploy(t, "--project", project), "Deployment completed successfully")
	theBakeryWorks(t)
	flint(t, "deploy", "-f", manifest)
	theBakeryWorks(t)
	contains(t, "the end", wskdeploy(t, "undeploy", "--project", project), "Undeployment completed successfully")
	nothingOfTheBakery(t)
	contains(t, "wskdeploy's", wskdeploy(t, "--project", project), "Deployment completed successfully")
	flint(t, "undeploy", "-f", manifest)
	nothingOfTheBakery(t)
}

// As the manifests among wskdeploy's own examples have it.
func TestShortVersions(t *testing.T) {
	project := t.TempDir()
	manifest := filepath.Join(project, "manifest.yaml")
	text := `packages:
  short:
    version: 1.0
    actions:
      say:
        version: 1.0
        function: say.js
        runtime: nodejs:default
`
	ok(t, os.WriteFile(manifest, []byte(text), 0o644))
	ok(t, os.WriteFile(filepath.Join(project, "say.js"), []byte(echo), 0o644))
	wsk := client(t)
	for time := 0; time < 2; time++ {
		contains(t, "the deployment", wskdeploy(t, "--project", project), "Deployment completed successfully")
		action, _, err := wsk.Actions.Get("short/say", false)
		ok(t, err)
		equal(t, "the action's version", action.Version, "1.0.0")
		bundle, _, err := wsk.Packages.Get("short")
		ok(t, err)
		equal(t, "the package's version", bundle.Version, "1.0.0")
	}
	flint(t, "deploy", "-f", manifest)
	matches(t, "the second deployment", flint(t, "deploy", "-f", manifest), `\d+ unchanged`)
	contains(t, "the end", wskdeploy(t, "undeploy", "--project", project), "Undeployment completed successfully")
	_, answer, err := wsk.Packages.Get("short")
	refused(t, answer, err, 404, missing)
}

func TestWskdeploySaysWhatIsRefused(t *testing.T) {
	project := theProject(t)
	path := filepath.Join(project, "manifest.yaml")
	ok(t, os.WriteFile(path, []byte("packages:\n  lost:\n    rules:\n      lost-rule: { trigger: lost-trigger, action: lost/nobody }\n"), 0o644))
	home := t.TempDir()
	command := exec.Command(os.Getenv("WSKDEPLOY"), "--project", project, "--apihost", serverURL, "--auth", guest, "--namespace", "_")
	command.Env = append(os.Environ(), "HOME="+home)
	output, err := command.CombinedOutput()
	if err == nil {
		t.Fatalf("a rule without a trigger was deployed:\n%s", output)
	}
	contains(t, "what it says", string(output), "400 Bad Request", "trigger /guest/lost-trigger does not exist")
	_, err = client(t).Packages.Delete("lost")
	ok(t, err)
}
