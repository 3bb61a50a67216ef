package control

import (
	"crypto/tls"
	"crypto/x509"
	"log"
	"os"
)

// Security is how a client comes in. A file is PEM; that of a certificate has its key, too.
type Security struct {
	Protocol    string  `json:"protocol"`
	CA          string  `json:"ca"`
	Certificate string  `json:"certificate"`
	Mechanism   string  `json:"mechanism"`
	User        string  `json:"user"`
	Password    *string `json:"password"`
	Token       *string `json:"token"`
}

// TLS is nil where nothing is encrypted. A file that cannot be read ends the program: nobody is to come in by another way than was asked.
func (s *Security) TLS() *tls.Config {
	if s.CA == "" {
		return nil
	}
	authority, err := os.ReadFile(s.CA)
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	if !config.RootCAs.AppendCertsFromPEM(authority) {
		log.Fatalf("no certificate in %s", s.CA)
	}
	if s.Certificate != "" {
		own, err := tls.LoadX509KeyPair(s.Certificate, s.Certificate)
		if err != nil {
			log.Fatal(err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

// Secret is the password, or nothing.
func (s *Security) Secret() string {
	if s.Password == nil {
		return ""
	}
	return *s.Password
}
