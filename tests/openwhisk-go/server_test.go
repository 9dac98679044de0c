package openwhiskgo

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"
)

// The well-known guest key, which works on loopback only.
const guest = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"

// The server that all tests share, each with names of its own.
var serverURL string

func TestMain(m *testing.M) {
	code, err := withServer(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withServer(m *testing.M) (code int, err error) {
	directory, err := os.MkdirTemp("", "flint-openwhisk-go-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(directory)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1, err
	}
	address := listener.Addr().String()
	listener.Close()

	log, err := os.Create(filepath.Join(directory, "server.log"))
	if err != nil {
		return 1, err
	}
	defer log.Close()
	server := exec.Command(os.Getenv("FLINT_BIN"), "up", "--listen", address, "--data-dir", filepath.Join(directory, "data"))
	server.Env = append(os.Environ(),
		"FLINT_LIMITS__INVOCATIONS_PER_MINUTE=1000000", "FLINT_LIMITS__CONCURRENT_INVOCATIONS=10000")
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	serverURL = "http://" + address
	said := func(what string) error {
		text, _ := os.ReadFile(log.Name())
		if len(text) > 8000 {
			text = text[len(text)-8000:]
		}
		return fmt.Errorf("%s; its log ends with\n%s", what, text)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get(serverURL + "/ping"); err == nil {
			answer.Body.Close()
			break
		}
		select {
		case err := <-ended:
			return 1, said(fmt.Sprintf("the server ended (%v)", err))
		default:
		}
		if time.Now().After(end) {
			server.Process.Kill()
			return 1, said("the server was not ready within two minutes")
		}
	}

	code = m.Run()

	server.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if err != nil {
			return 1, said(fmt.Sprintf("the server was asked to stop and ended with %v", err))
		}
	case <-time.After(2 * time.Minute):
		server.Process.Kill()
		<-ended
		return 1, said("the server did not stop when asked")
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, said("tests failed"))
	}
	return code, nil
}

// client is what `wsk` makes of its properties.
func client(t *testing.T) *whisk.Client { return clientWith(t, guest, "_") }

func clientWith(t *testing.T, key, namespace string) *whisk.Client {
	t.Helper()
	base, err := whisk.GetURLBase(serverURL, "/api")
	ok(t, err)
	made, err := whisk.NewClient(&http.Client{Timeout: 2 * time.Minute},
		&whisk.Config{Host: serverURL, BaseURL: base, AuthToken: key, Namespace: namespace, Version: "v1"})
	ok(t, err)
	return made
}

// raw is a request that the library has no words for.
func raw(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, path, bytes.NewBufferString(body))
	ok(t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	ok(t, err)
	defer answer.Body.Close()
	text := new(bytes.Buffer)
	_, err = text.ReadFrom(answer.Body)
	ok(t, err)
	return answer.StatusCode, text.String()
}
