package openwhiskgo

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want interface{}) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s is %#v, not %#v", what, got, want)
	}
}

// same compares as JSON, in which numbers have no type.
func same(t *testing.T, what string, got interface{}, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	ok(t, err)
	var left, right interface{}
	ok(t, json.Unmarshal(text, &left))
	ok(t, json.Unmarshal([]byte(want), &right))
	if !reflect.DeepEqual(left, right) {
		t.Fatalf("%s is %s, not %s", what, text, want)
	}
}

func matches(t *testing.T, what, got, pattern string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(got) {
		t.Fatalf("%s is %q, which does not match %s", what, got, pattern)
	}
}

// refused checks the status, and what `wsk` prints and exits with.
func refused(t *testing.T, answer *http.Response, err error, status int, message string) {
	t.Helper()
	refusal, is := err.(*whisk.WskError)
	if !is {
		t.Fatalf("a refusal with %d was expected, and there was %#v", status, err)
	}
	matches(t, "the message", refusal.Error(), message)
	equal(t, "the status", answer.StatusCode, status)
	// The library's own exit code for what the server refuses.
	equal(t, "the exit code", refusal.ExitCode, status-256)
}

// eventually waits; its bound is one on hanging and no promise of speed.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ask(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come about within two minutes", what)
		}
	}
}

func text(value string) *string { return &value }
func number(value int) *int     { return &value }
func flag(value bool) *bool     { return &value }

func pairs(values ...interface{}) (made whisk.KeyValueArr) {
	for i := 0; i < len(values); i += 2 {
		made = append(made, whisk.KeyValue{Key: values[i].(string), Value: values[i+1]})
	}
	return made
}

func javascript(name, code string) *whisk.Action {
	return &whisk.Action{Name: name, Exec: &whisk.Exec{Kind: "nodejs:default", Code: text(code)}}
}

func names[T any](entities []T, name func(T) string) map[string]T {
	found := map[string]T{}
	for _, entity := range entities {
		found[name(entity)] = entity
	}
	return found
}

func number64(value float64) json.Number { text, _ := json.Marshal(value); return json.Number(text) }

func jsonOf(t *testing.T, body string) (value interface{}) {
	t.Helper()
	ok(t, json.Unmarshal([]byte(body), &value))
	return value
}
