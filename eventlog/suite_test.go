package eventlog_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/loopd/loopd/eventlog"
	"github.com/loopd/loopd/internal/logtest"
	"github.com/loopd/loopd/internal/natsembed"
)

// host runs an embedded server that can be restarted; it is the in-process
// provider of whichever runs.
type host struct {
	config natsembed.Config

	mu     sync.Mutex
	server *natsembed.Server
}

func startHost(t testing.TB, c natsembed.Config) *host {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	h := &host{config: c}
	h.start(t)
	t.Cleanup(h.stop)
	h.config.Port = h.server.Port() // where it comes back after a restart
	return h
}

func (h *host) start(t testing.TB) {
	t.Helper()
	s, err := natsembed.Start(h.config)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.server = s
	h.mu.Unlock()
}

func (h *host) current() *natsembed.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

func (h *host) stop() { h.current().Shutdown() }

func (h *host) restart(t testing.TB) {
	h.stop()
	h.start(t)
}

func (h *host) InProcessConn() (net.Conn, error) { return h.current().InProcessConn() }

// log opens the log: in process, with bulk reads over TCP.
func (h *host) log(t testing.TB, change func(*eventlog.Config)) *eventlog.Log {
	t.Helper()
	c := eventlog.Config{URL: h.current().ClientURL(), InProcess: h, RequestTimeout: 500 * time.Millisecond, Created: h.current().Sync}
	if change != nil {
		change(&c)
	}
	l, err := eventlog.Open(logtest.Context(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (h *host) suite() logtest.Server { return logtest.Server{Open: h.log, Restart: h.restart} }

func TestSuiteEmbedded(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Server {
		return startHost(t, natsembed.Config{}).suite()
	})
}

func TestSuiteBarrier(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Server {
		h := startHost(t, natsembed.Config{Durability: natsembed.DurabilityBarrier})
		return logtest.Server{Open: func(t testing.TB, change func(*eventlog.Config)) *eventlog.Log {
			return h.log(t, func(c *eventlog.Config) {
				c.Barrier = h.current().Sync
				if change != nil {
					change(c)
				}
			})
		}}
	})
}

// TestSuiteExternal runs over TCP alone, with a user and TLS: a server of
// another process is no different.
func TestSuiteExternal(t *testing.T) {
	pki := newPKI(t)
	logtest.Run(t, func(t *testing.T) logtest.Server {
		h := startHost(t, natsembed.Config{
			User: "loop", Password: "secret", TLSCert: pki.serverCert, TLSKey: pki.serverKey, TLSCA: pki.ca,
		})
		return logtest.Server{
			Restart: h.restart,
			Open: func(t testing.TB, change func(*eventlog.Config)) *eventlog.Log {
				return h.log(t, func(c *eventlog.Config) {
					c.InProcess, c.Prefix = nil, "acme.loop"
					c.User, c.Password = "loop", "secret"
					c.TLSCA, c.TLSCert, c.TLSKey = pki.ca, pki.clientCert, pki.clientKey
					if change != nil {
						change(c)
					}
				})
			},
		}
	})
}

type pki struct{ ca, serverCert, serverKey, clientCert, clientKey string }

func newPKI(t testing.TB) pki {
	t.Helper()
	dir := t.TempDir()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sign := func(c *x509.Certificate, key *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, authority, &key.PublicKey, caKey)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	leaf := func(name string, serial int64) (cert, key string) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der := sign(&x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}, k)
		raw, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			t.Fatal(err)
		}
		return write(name+".pem", "CERTIFICATE", der), write(name+".key", "PRIVATE KEY", raw)
	}
	p := pki{ca: write("ca.pem", "CERTIFICATE", sign(authority, caKey))}
	p.serverCert, p.serverKey = leaf("server", 2)
	p.clientCert, p.clientKey = leaf("client", 3)
	return p
}
