// An endpoint of the QUIC interop runner over quic-go. The environment says what it does, as that of the runner's containers
// does: ROLE, TESTCASE, REQUESTS, WWW, DOWNLOADS, CERTS, LISTEN, SSLKEYLOGFILE and QLOGDIR. A case that quic-go lacks ends
// with 127: v2 (it has version 2, and no compatible negotiation) and connectionmigration (no preferred address).
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for the two names below

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

const hq = "hq-interop"

// crypto/tls has no setting for the cipher suites of TLS 1.3, and keeps these names for quic-go.
//
//go:linkname suites crypto/tls.defaultCipherSuitesTLS13
var suites []uint16

//go:linkname suitesNoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var suitesNoAES []uint16

func env(name, otherwise string) string {
	return cmp.Or(os.Getenv(name), otherwise)
}

func main() {
	role, name := os.Getenv("ROLE"), os.Getenv("TESTCASE")
	run := map[string]func(string, *tls.Config, *quic.Config) error{"server": server, "client": client}[role]
	if run == nil {
		fmt.Fprintln(os.Stderr, "ROLE is server or client")
		os.Exit(2)
	}
	if os.Getenv("CASE") == "connectionmigration" {
		name = "connectionmigration" // of which a client is told "transfer"
	}
	switch name {
	case "handshake", "transfer", "longrtt", "multiplexing", "multiconnect", "retry", "resumption", "zerortt", "http3":
	case "blackhole", "keyupdate", "ecn", "amplificationlimit", "ipv6", "rebind-port", "rebind-addr", "handshakeloss":
	case "transferloss", "handshakecorruption", "transfercorruption", "goodput", "crosstraffic":
	case "chacha20":
		suites = []uint16{tls.TLS_CHACHA20_POLY1305_SHA256}
		suitesNoAES = suites
	default:
		fmt.Fprintf(os.Stderr, "quic-go has no case '%s'\n", name)
		os.Exit(127)
	}
	tlsConfig := &tls.Config{NextProtos: []string{hq}}
	if name == "http3" {
		tlsConfig.NextProtos = []string{http3.NextProtoH3}
	}
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		fail(err)
		tlsConfig.KeyLogWriter = file
	}
	// Its own 5 s are short for a path that loses 30 %.
	config := &quic.Config{HandshakeIdleTimeout: 30 * time.Second, Tracer: qlog.DefaultConnectionTracer}
	fail(run(name, tlsConfig, config))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func server(name string, tlsConfig *tls.Config, config *quic.Config) error {
	certs, www := env("CERTS", "/certs"), env("WWW", "/www")
	own, err := tls.LoadX509KeyPair(certs+"/cert.pem", certs+"/priv.key")
	fail(err)
	tlsConfig.Certificates = []tls.Certificate{own}
	config.Allow0RTT = name == "zerortt"
	socket, err := net.ListenPacket("udp", env("LISTEN", "[::]:443"))
	fail(err)
	transport := quic.Transport{Conn: socket}
	transport.VerifySourceAddress = func(net.Addr) bool { return name == "retry" }
	listener, err := transport.ListenEarly(tlsConfig, config)
	fail(err)
	fmt.Println("listens on", socket.LocalAddr())
	if name == "http3" {
		server := http3.Server{Handler: http.FileServer(http.Dir(www))}
		return server.ServeListener(listener)
	}
	root, err := os.OpenRoot(www)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			for stream, err := connection.AcceptStream(context.Background()); err == nil; {
				go answer(root, stream)
				stream, err = connection.AcceptStream(context.Background())
			}
		}()
	}
}

func answer(root *os.Root, stream *quic.Stream) {
	request, err := io.ReadAll(io.LimitReader(stream, 8000))
	path, isGet := strings.CutPrefix(strings.TrimRight(string(request), "\r\n "), "GET /")
	if err != nil || !isGet {
		stream.CancelWrite(400)
		return
	}
	file, err := root.Open(path)
	if err != nil {
		stream.CancelWrite(404)
		return
	}
	defer file.Close()
	if _, err := io.Copy(stream, file); err != nil {
		stream.CancelWrite(500)
		return
	}
	stream.Close()
}

// Tickets tells of each session that the server gives.
type tickets struct {
	tls.ClientSessionCache
	came chan struct{}
}

func (t tickets) Put(key string, state *tls.ClientSessionState) {
	t.ClientSessionCache.Put(key, state)
	select {
	case t.came <- struct{}{}:
	default:
	}
}

func client(name string, tlsConfig *tls.Config, config *quic.Config) error {
	var urls []*url.URL
	for _, word := range strings.Fields(os.Getenv("REQUESTS")) {
		parsed, err := url.Parse(word)
		fail(err)
		urls = append(urls, parsed)
	}
	if len(urls) == 0 {
		return errors.New("REQUESTS has no URL")
	}
	tlsConfig.InsecureSkipVerify = true
	switch name {
	case "http3":
		transport := &http3.Transport{TLSClientConfig: tlsConfig, QUICConfig: config, Dial: dial}
		defer transport.Close()
		together(urls, func(u *url.URL) error {
			answer, err := (&http.Client{Transport: transport}).Get(u.String())
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %s", u, answer.Status)
			}
			return save(u, answer.Body)
		})
		return nil
	case "multiconnect", "handshakeloss", "handshakecorruption":
		for i := range urls {
			fail(connect(urls[i:i+1], false, tlsConfig, config))
		}
		return nil
	case "resumption", "zerortt":
		cache := tickets{tls.NewLRUClientSessionCache(1), make(chan struct{}, 1)}
		tlsConfig.ClientSessionCache = cache
		fail(connect(urls[:1], false, tlsConfig, config, cache.came))
		return connect(urls[1:], name == "zerortt", tlsConfig, config)
	default:
		return connect(urls, false, tlsConfig, config)
	}
}

// With connection IDs of its own, which it otherwise leaves out: who reads the packets then knows them after a change of address.
func dial(ctx context.Context, host string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
	address, err := net.ResolveUDPAddr("udp", host)
	fail(err)
	socket, err := net.ListenUDP("udp", nil)
	fail(err)
	transport := &quic.Transport{Conn: socket, ConnectionIDLength: 8}
	return transport.DialEarly(ctx, address, tlsConfig, config)
}

// Fetches all of one connection, and waits up to 10 s for each of what is to come before it ends.
func connect(urls []*url.URL, early bool, tlsConfig *tls.Config, config *quic.Config, before ...chan struct{}) error {
	connection, err := dial(context.Background(), urls[0].Host, tlsConfig, config)
	fail(err)
	defer connection.CloseWithError(0, "")
	if !early {
		select {
		case <-connection.HandshakeComplete():
		case <-connection.Context().Done():
			return context.Cause(connection.Context())
		}
	}
	together(urls, func(u *url.URL) error {
		stream, err := connection.OpenStreamSync(context.Background())
		fail(err)
		_, err = stream.Write([]byte("GET " + u.Path + "\r\n"))
		fail(err)
		stream.Close()
		return save(u, stream)
	})
	for _, came := range before {
		select {
		case <-came:
		case <-time.After(10 * time.Second):
			return errors.New("no session ticket came")
		}
	}
	return nil
}

func together(urls []*url.URL, fetch func(*url.URL) error) {
	var all sync.WaitGroup
	for _, u := range urls {
		all.Go(func() { fail(fetch(u)) })
	}
	all.Wait()
}

func save(u *url.URL, body io.Reader) error {
	file, err := os.Create(filepath.Join(env("DOWNLOADS", "/downloads"), filepath.Base(u.Path)))
	fail(err)
	_, err = io.Copy(file, body)
	return errors.Join(err, file.Close())
}
