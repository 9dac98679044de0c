package openwhiskgo

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/openwhisk-client-go/whisk"
)

// The well-known guest key, which works on loopback only.
const guest = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP"

// The server that the tests share, each with names of its own.
var (
	shared    *server
	serverURL string
)

// A Flint server on a free port with its own data.
type server struct {
	directory, url string
	process        *exec.Cmd
	ended          chan error
}

func TestMain(m *testing.M) {
	var err error
	if shared, err = start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serverURL = shared.url
	code := m.Run()
	err = shared.end()
	if code != 0 && err == nil {
		err = shared.says("tests failed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(shared.directory)
	os.Exit(code)
}

func start(settings ...string) (*server, error) {
	for tries := 1; ; tries++ {
		made, err := begin(settings...)
		// Somebody else may have been given the port that was free a moment ago.
		if err == nil || tries == 5 || !strings.Contains(err.Error(), " is in use") {
			return made, err
		}
	}
}

func begin(settings ...string) (*server, error) {
	directory, err := os.MkdirTemp("", "flint-openwhisk-go-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().String()
	listener.Close()
	log, err := os.Create(filepath.Join(directory, "server.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	made := &server{directory: directory, url: "http://" + address, ended: make(chan error, 1)}
	made.process = exec.Command(os.Getenv("FLINT_BIN"), "up", "--listen", address, "--data-dir", made.data())
	made.process.Env = append(os.Environ(),
		"FLINT_LIMITS__INVOCATIONS_PER_MINUTE=1000000", "FLINT_LIMITS__CONCURRENT_INVOCATIONS=10000")
	made.process.Env = append(made.process.Env, settings...)
	made.process.Stdout, made.process.Stderr = log, log
	if err := made.process.Start(); err != nil {
		return nil, err
	}
	go func() { made.ended <- made.process.Wait() }()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Get(made.url + "/ping"); err == nil {
			answer.Body.Close()
			return made, nil
		}
		select {
		case err := <-made.ended:
			return nil, made.says(fmt.Sprintf("the server ended (%v)", err))
		default:
		}
	}
	made.process.Process.Kill()
	return nil, made.says("the server was not ready within two minutes")
}

func (s *server) data() string { return filepath.Join(s.directory, "data") }

// says is an error with what the server said last.
func (s *server) says(what string) error {
	text, _ := os.ReadFile(filepath.Join(s.directory, "server.log"))
	if len(text) > 8000 {
		text = text[len(text)-8000:]
	}
	return fmt.Errorf("%s; the server's log ends with\n%s", what, text)
}

// end asks the server to stop; its data stays.
func (s *server) end() error {
	s.process.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			return s.says(fmt.Sprintf("the server was asked to stop and ended with %v", err))
		}
		return nil
	case <-time.After(2 * time.Minute):
		s.process.Process.Kill()
		<-s.ended
		return s.says("the server did not stop when asked")
	}
}

// client is what `wsk` makes of its properties.
func client(t *testing.T) *whisk.Client { return clientWith(t, guest, "_") }

func clientWith(t *testing.T, key, namespace string) *whisk.Client {
	t.Helper()
	return shared.client(t, key, namespace)
}

func (s *server) client(t *testing.T, key, namespace string) *whisk.Client {
	t.Helper()
	base, err := whisk.GetURLBase(s.url, "/api")
	ok(t, err)
	made, err := whisk.NewClient(&http.Client{Timeout: 2 * time.Minute},
		&whisk.Config{Host: s.url, BaseURL: base, AuthToken: key, Namespace: namespace, Version: "v1"})
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
