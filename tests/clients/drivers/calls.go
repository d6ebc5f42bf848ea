// Makes calls with the client for Go; see tests/clients/library.py.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"example.com/keywright"
)

type call struct {
	Call, URL, File string
	LicenseKey      string `json:"license_key"`
	Holder, End     string
}
type made struct {
	Valid   bool    `json:"valid"`
	State   string  `json:"state"`
	Detail  string  `json:"detail"`
	Seconds float64 `json:"seconds"`
}

func main() {
	var calls []call
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	if err := json.NewDecoder(os.Stdin).Decode(&calls); err != nil {
		panic(err)
	}
	all, waiting := make([]made, len(calls)), sync.WaitGroup{}
	waiting.Add(len(calls))
	for i, one := range calls {
		go func(i int, one call) {
			defer waiting.Done()
			all[i] = run(one, time.Duration(seconds*float64(time.Second)))
		}(i, one)
	}
	waiting.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(all)
}

func run(one call, timeout time.Duration) made {
	began := time.Now()
	client := &keywright.Client{URL: one.URL, Path: one.File, Timeout: timeout}
	client.Expected = keywright.Expected{PublicKeys: []string{os.Args[2]}, Product: "editor", Fingerprint: os.Args[3]}
	status := keywright.Status{}
	switch one.Call {
	case "check":
		status = client.Check()
	case "trial":
		status = client.StartTrial(0, "", "")
	case "activate":
		status = client.Activate(one.LicenseKey, "")
	case "choose":
		full := client.Activate(one.LicenseKey, "")
		problem := full.Err.(*keywright.Error)
		status = client.Replace(one.LicenseKey, "", problem.Devices[0].ID)
		status.State, status.Err = full.State+" "+status.State, errors.New(problem.Devices[0].Name)
	default:
		status = lease(client, one)
	}
	detail := ""
	if status.Err != nil {
		detail = status.Err.Error()
	}
	return made{status.Valid, status.State, detail, time.Since(began).Seconds()}
}

func lease(client *keywright.Client, one call) keywright.Status {
	seconds := map[string]int{"watch": 2}[one.Call]
	taken, err := client.TakeLease(one.Holder, seconds, one.LicenseKey)
	if problem, _ := err.(*keywright.Error); problem != nil {
		return keywright.Status{State: problem.Code, Err: err}
	} else if err != nil {
		return keywright.Status{State: "unreachable", Err: err}
	}
	for one.Call == "watch" {
		if _, err = os.Stat(one.End); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if one.Call != "lease" {
		isHeld := taken.IsHeld()
		return keywright.Status{Valid: isHeld, State: map[bool]string{true: "held", false: "lost"}[isHeld]}
	}
	err = taken.Renew()
	status, wasHeld := client.Check(), taken.IsHeld()
	taken.Release()
	status.Valid = status.Valid && err == nil && wasHeld && !taken.IsHeld()
	return status
}
