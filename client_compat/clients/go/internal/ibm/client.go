package ibm

import "ottla/clients/go/internal/control"

// Client to come.
func Client() control.Client { return control.Client{} }
