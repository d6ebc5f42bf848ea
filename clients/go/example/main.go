// Activates, and checks: example URL LICENSE_KEY PUBLIC_KEY FILE DEVICE; prints a line of JSON for each.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"example.com/keywright"
)

func main() {
	client := &keywright.Client{URL: os.Args[1], Path: os.Args[4], HTTP: http.Client{Timeout: 10 * time.Second}}
	client.Expected = keywright.Expected{PublicKeys: []string{os.Args[3]}, Fingerprint: os.Args[5]}
	for _, status := range []func() keywright.Status{
		client.Check,
		func() keywright.Status { return client.Activate(os.Args[2], "Example") },
		client.Check,
	} {
		told := status()
		detail := ""
		if told.Err != nil {
			detail = told.Err.Error()
		}
		line, _ := json.Marshal(map[string]any{"valid": told.Valid, "state": told.State, "detail": detail})
		fmt.Println(string(line))
	}
}
