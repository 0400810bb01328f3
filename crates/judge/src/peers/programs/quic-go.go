// A sender over quic-go: the server answers each stream with data without an end, the client reads it.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"math/big"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/quic-go"
)

const protocol = "peer"

// One that never ends is filled by congestion control and not by flow control.
func config() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow:     1 << 20,
		MaxStreamReceiveWindow:         64 << 20,
		InitialConnectionReceiveWindow: 1 << 20,
		MaxConnectionReceiveWindow:     64 << 20,
	}
}

func main() {
	bytes := int64(math.MaxInt64)
	var err error
	if len(os.Args) == 4 {
		bytes, err = strconv.ParseInt(os.Args[3], 10, 64)
	}
	if len(os.Args) < 3 || len(os.Args) > 4 || err != nil {
		fmt.Fprintln(os.Stderr, "write: peer server ADDRESS, or peer client ADDRESS [BYTES]")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "server":
		err = server(os.Args[2])
	case "client":
		err = client(os.Args[2], bytes)
	default:
		fmt.Fprintln(os.Stderr, "write server or client")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func certificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, err
}

func server(address string) error {
	own, err := certificate()
	if err != nil {
		return err
	}
	tlsConfig := &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{protocol}}
	listener, err := quic.ListenAddr(address, tlsConfig, config())
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			stream, err := connection.AcceptStream(context.Background())
			if err != nil {
				return
			}
			for data := make([]byte, 64<<10); err == nil; {
				_, err = stream.Write(data)
			}
		}()
	}
}

// client reads to the end, or until it has so many bytes.
func client(address string, bytes int64) error {
	tlsConfig := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
	if name := os.Getenv("SSLKEYLOGFILE"); name != "" {
		keys, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer keys.Close()
		tlsConfig.KeyLogWriter = keys
	}
	connection, err := quic.DialAddr(context.Background(), address, tlsConfig, config())
	if err != nil {
		return err
	}
	stream, err := connection.OpenStream()
	if err != nil {
		return err
	}
	if _, err := stream.Write([]byte{0}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(stream, bytes))
	return err
}
