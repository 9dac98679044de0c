// Greets whoever calls: arguments come on standard input, the answer goes to standard output, the log to standard error.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	params := struct {
		Name string `json:"name"`
	}{Name: "world"}
	if err := json.NewDecoder(os.Stdin).Decode(&params); err != nil {
		fmt.Fprintln(os.Stderr, "not JSON:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "called by", params.Name)
	json.NewEncoder(os.Stdout).Encode(map[string]string{"greeting": "Hello, " + params.Name + "!"})
}
