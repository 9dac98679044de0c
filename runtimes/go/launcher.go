// The launcher that Flint compiles beside a Go function without a main of its own. It implements OpenWhisk's ActionLoop: a call is one JSON
// line on stdin, its answer one JSON line on descriptor 3, and the function's output is its log. It is compiled as part of the function's
// module, whose go.mod may select a language version without "any" (before 1.18).

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// flintEntry is the function; the build inserts its name.
var flintEntry interface{} = FLINT_MAIN

// flintCall calls the function with the arguments that its signature takes.
func flintCall(arguments json.RawMessage) (interface{}, error) {
	var object map[string]interface{}
	var list []interface{}
	var err error
	switch flintEntry.(type) {
	case func([]interface{}) []interface{}, func([]interface{}) ([]interface{}, error):
		err = json.Unmarshal(arguments, &list)
	default:
		err = json.Unmarshal(arguments, &object)
	}
	if err != nil {
		return nil, fmt.Errorf("the arguments are not what the function takes: %w", err)
	}
	switch entry := flintEntry.(type) {
	case func(map[string]interface{}) map[string]interface{}:
		return entry(object), nil
	case func(map[string]interface{}) (map[string]interface{}, error):
		return entry(object)
	case func(map[string]interface{}) interface{}:
		return entry(object), nil
	case func(map[string]interface{}) []interface{}:
		return entry(object), nil
	case func([]interface{}) []interface{}:
		return entry(list), nil
	case func([]interface{}) ([]interface{}, error):
		return entry(list)
	case func() map[string]interface{}:
		return entry(), nil
	}
	return nil, fmt.Errorf("the function's type is %T: it is to be func(map[string]interface{}) map[string]interface{} or func([]interface{}) []any", flintEntry)
}

func flintRun(line []byte) []byte {
	var call map[string]json.RawMessage
	if err := json.Unmarshal(line, &call); err != nil {
		return flintFailure(err)
	}
	for key, value := range call {
		var text string
		if key != "value" && json.Unmarshal(value, &text) == nil {
			_ = os.Setenv("__OW_"+strings.ToUpper(key), text)
		}
	}
	if _, given := call["api_key"]; !given {
		_ = os.Unsetenv("__OW_API_KEY")
	}
	result, err := flintCall(call["value"])
	if err != nil {
		return flintFailure(err)
	}
	answer, err := json.Marshal(result)
	if err != nil {
		return flintFailure(err)
	}
	if string(answer) == "null" {
		return []byte("{}")
	}
	return answer
}

func flintFailure(err error) []byte {
	fmt.Fprintln(os.Stderr, err)
	answer, _ := json.Marshal(map[string]string{"error": err.Error()})
	return answer
}

func main() {
	answers := os.NewFile(3, "answers")
	calls := bufio.NewReaderSize(os.Stdin, 1<<16)
	// Neither the function nor the programs that it starts may read the calls.
	os.Stdin, _ = os.Open(os.DevNull)
	if _, asked := os.LookupEnv("__OW_WAIT_FOR_ACK"); asked {
		fmt.Fprintln(answers, `{"ok":true}`)
	}
	for {
		line, err := calls.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if _, err := answers.Write(append(flintRun(line), '\n')); err != nil {
			return
		}
	}
}
