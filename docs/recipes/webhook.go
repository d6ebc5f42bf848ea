// Verify a delivery of Keywright (Standard Webhooks), with Go's standard library alone.
//
// go run webhook.go SECRET WEBHOOK-ID WEBHOOK-TIMESTAMP WEBHOOK-SIGNATURE < body
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Delivery is an event, as Keywright tells it.
type Delivery struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		EventID   int64           `json:"event_id"`
		LicenseID *int64          `json:"license_id"`
		Details   json.RawMessage `json:"details"`
	} `json:"data"`
}

// VerifyWebhook returns the delivery, and an error for one that is not Keywright's or is older than five minutes.
func VerifyWebhook(secret, id, timestamp, signature string, body []byte) (*Delivery, error) {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age > 5*time.Minute || age < -5*time.Minute {
		return nil, errors.New("too old")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	// While a secret is replaced, there are several signatures.
	for _, one := range strings.Split(signature, " ") {
		if hmac.Equal([]byte(expected), []byte(one)) {
			delivery := new(Delivery)
			return delivery, json.Unmarshal(body, delivery)
		}
	}
	return nil, errors.New("not signed with this secret")
}

func main() {
	body, _ := io.ReadAll(os.Stdin)
	delivery, err := VerifyWebhook(os.Args[1], os.Args[2], os.Args[3], os.Args[4], body)
	if err != nil {
		fmt.Fprintln(os.Stderr, "refused:", err)
		os.Exit(1)
	}
	if delivery.Data.LicenseID == nil { // It is about no license: a test, say.
		fmt.Println(delivery.Type)
		return
	}
	fmt.Println(delivery.Type, *delivery.Data.LicenseID)
}
