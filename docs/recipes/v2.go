// The four calls of v2, with the standard library: go run v2.go URL LICENSE-KEY
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"time"
)

// Answer is what v2 answers, as far as a program needs it. Numbers may come as texts.
type Answer struct {
	Message string
	Success bool
	Data    struct {
		TimesActivated json.RawMessage
		ActivationData json.RawMessage
	}
}

var client = http.Client{Timeout: 10 * time.Second}

// The answer, or an error with the server's sentence for a refusal.
func call(server, action, licenseKey string, parameters url.Values) (Answer, error) {
	var answer Answer
	address := server + "/wp-json/lmfwc/v2/licenses/" + action + "/" + url.PathEscape(licenseKey) + "?" + parameters.Encode()
	response, err := client.Get(address)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	if err = json.NewDecoder(response.Body).Decode(&answer); err == nil && !answer.Success {
		err = errors.New(answer.Message)
	}
	return answer, err
}

func main() {
	server, licenseKey := os.Args[1], os.Args[2]
	show := func(name, action string, parameters url.Values) Answer {
		answer, err := call(server, action, licenseKey, parameters)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", name, answer.Data.TimesActivated)
		return answer
	}
	activated := show("activated", "activate", url.Values{"label": {"My computer"}})
	var activation struct{ Token string }
	if err := json.Unmarshal(activated.Data.ActivationData, &activation); err != nil {
		log.Fatal(err)
	}
	token := url.Values{"token": {activation.Token}}
	show("validated", "validate", nil)
	show("deactivated", "deactivate", token)
	show("reactivated", "activate", token)
}
