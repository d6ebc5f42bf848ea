// Package keywright licenses a program: activate, validate with signed answers, verify, and keep. MIT license.
package keywright

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// In seconds: how far a server's clock may be ahead of ours, and ours may move back.
const tolerance, maxBytes, maxAnswer, minTime = 300, 65_536, 1 << 20, -1 << 63
const licenseType, keysType = "keywright-license+jwt", "keywright-keys+jwt"
const noLease = "This program has no place in the shared license. " +
	"Start the program again; where every place is taken, end it on another device first."
const disbelief, begin, end = "the signed answer cannot be believed", "-----BEGIN KEYWRIGHT LICENSE-----", "-----END KEYWRIGHT LICENSE-----"

var states = map[string]string{"disabled": "disabled", "inactive": "disabled", "expired": "expired",
	"version_not_covered": "expired", "limit_reached": "limit_reached", "too_many_new_devices": "limit_reached",
	"no_removal_left": "limit_reached", "lease_lost": "no_lease", "lease_required": "no_lease", "unreachable": "unreachable_too_long",
	// Rules that a kept answer breaks: it was copied from another device, or made for another program.
	"device": "not_activated", "license_key": "not_activated", "audience": "not_activated", "issuer": "not_activated", "build": "unreachable_too_long"}

// Error has the rule that a signed answer breaks, or the code of the problem that the server answers; with the devices
// of a full license, where its terms let programs choose.
type Error struct {
	Code, Detail string
	Devices      []Device
}

// Device holds a place of a full license; it may run without the server until OfflineUntil. A time can be zero.
type Device struct {
	ID             int64
	Name, Platform string
	LastSeenAt     time.Time `json:"last_seen_at"`
	OfflineUntil   time.Time `json:"offline_until"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Detail }

// Claims are what a signed answer says.
type Claims map[string]any

// Expected is what an answer must fit; what is empty is not compared, but for BuiltAt (like 2026-11-22T08:54:00Z): what
// is for one build is refused by every other. PublicKeys are base64url of 32 bytes each. Where a Nonce was sent,
// Operation (the path below /v3/) and Body are the question: a no need not name a license, and would fit another. With
// MayLackDevice, the answer may name no device.
type Expected struct {
	PublicKeys                                                                []string
	Issuer, Product, LicenseKey, Fingerprint, BuiltAt, Nonce, Operation, Body string
	Now                                                                       time.Time
	MayLackDevice                                                             bool
}

// Verify returns the claims of a signed answer or a license file, or an *Error.
func Verify(text string, want Expected) (claims Claims, err error) {
	defer rescue(&err)
	require(len(text) <= maxBytes, "too_large")
	claims = open(unarmour(text), licenseType, want.PublicKeys)
	claims.integer("iat")
	nbf, exp, now := claims.integer("nbf"), claims.integer("exp"), want.Now.Unix()
	valid, isBoolean := claims["valid"].(bool)
	require(isBoolean, "payload")
	require(want.Issuer == "" || claims["iss"] == want.Issuer, "issuer")
	require(want.Product == "" || claims["aud"] == want.Product, "audience")
	require(want.Now.IsZero() || nbf <= now+tolerance, "not_yet_valid")
	require(want.Now.IsZero() || now < exp, "expired")
	require(want.Fingerprint == "" || claims.fits("activation", "fingerprint", want.Fingerprint, !valid || want.MayLackDevice), "device")
	hash := sum("keywright-license-key:" + want.LicenseKey)
	require(want.LicenseKey == "" || claims.fits("license", "key_hash", hash, !valid), "license_key")
	require(claims["built_at"] == nil || claims["built_at"] == orNull(want.BuiltAt), "build")
	require(want.Nonce == "" || claims["nonce"] == want.Nonce, "nonce")
	asked := sum("keywright-question:" + want.Operation + "\n" + want.Body)
	require(want.Nonce == "" || want.Operation != "" && claims["asked"] == asked, "question")
	return claims, nil
}

// FollowKeySets returns the keys to believe, and the sets that led to them: the newest set that a trusted key has
// signed takes the place of the trusted keys, again and again. A set that does not verify changes nothing.
func FollowKeySets(publicKeys, keySets []string, now int64) (trusted, sets []string) {
	since, taken := int64(minTime), map[string]bool{}
	for trusted = publicKeys; ; {
		newest, text, keys := since, "", trusted
		for _, one := range keySets {
			found, iat, err := openKeySet(one, trusted, now)
			if err == nil && !taken[one] && (iat > newest || iat == newest && text == "") {
				newest, text, keys = iat, one, found
			}
		}
		if trusted, since = keys, newest; text == "" {
			return trusted, sets
		}
		sets, taken[text] = append(sets, text), true
	}
}

func openKeySet(text string, trusted []string, now int64) (keys []string, iat int64, err error) {
	defer rescue(&err)
	require(len(text) <= maxBytes, "too_large")
	claims := open(text, keysType, trusted)
	jwks, _ := claims["keys"].([]any)
	for _, one := range jwks {
		jwk, _ := one.(map[string]any)
		if x, _ := jwk["x"].(string); jwk["kty"] == "OKP" && jwk["crv"] == "Ed25519" && len(decode(x)) == 32 {
			keys = append(keys, x)
		}
	}
	require(now < claims.integer("exp") && len(keys) > 0, "expired")
	return keys, claims.integer("iat"), nil
}

// The payload of a JWS, once its signature holds. The token brings no key; it only chooses one.
func open(token, kind string, publicKeys []string) (claims Claims) {
	parts, key := strings.Split(token, "."), ""
	require(len(parts) == 3, "not_three_parts")
	for _, x := range publicKeys {
		kid := sum(`{"crv":"Ed25519","kty":"OKP","x":"` + x + `"}`)
		for _, alg := range []string{"EdDSA", "Ed25519"} {
			if encode([]byte(`{"alg":"`+alg+`","kid":"`+kid+`","typ":"`+kind+`"}`)) == parts[0] && len(decode(x)) == 32 {
				key = x
			}
		}
	}
	require(key != "", "header")
	payload, signature := decode(parts[1]), decode(parts[2])
	require(payload != nil && signature != nil, "base64url")
	require(ed25519.Verify(decode(key), []byte(parts[0]+"."+parts[1]), signature), "signature")
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	decoder.UseNumber()
	require(utf8.Valid(payload) && json.Valid(payload) && decoder.Decode(&claims) == nil && claims != nil, "payload")
	return claims
}
func (c Claims) integer(name string) int64 {
	number, _ := c[name].(json.Number)
	value, err := number.Int64()
	require(err == nil, "payload")
	return value
}

// Whether it is for this device or key. Only an answer that says no may leave open for which it is.
func (c Claims) fits(claim, member, expected string, mayLack bool) bool {
	found, _ := c[claim].(map[string]any)
	return found[member] == expected || mayLack && c[claim] == nil
}

func unarmour(text string) string {
	first, lines := -1, strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	for i, line := range lines {
		if lines[i] = strings.TrimRight(line, " \t\r"); first >= 0 && lines[i] == end {
			return strings.Join(lines[first+1:i], "")
		} else if first < 0 && lines[i] == begin {
			first = i
		}
	}
	require(first < 0, "armour")
	return strings.Trim(text, " \t\r\n")
}
func require(condition bool, code string) {
	if !condition {
		panic(&Error{Code: code, Detail: disbelief})
	}
}
func rescue(err *error) {
	if found := recover(); found != nil {
		*err = found.(*Error)
	}
}
func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// The bytes of base64url in its one form, without padding and with unused bits 0; nil for another text.
func decode(text string) []byte {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || encode(data) != text {
		return nil
	}
	return data
}
func sum(text string) string { hash := sha256.Sum256([]byte(text)); return encode(hash[:]) }

// Client is a program's license on this device. Set URL, Path (the file where it is kept), PublicKeys, Fingerprint (it
// names the device: 8 to 256 characters, no serial number) and, where wanted, Product, Issuer, AppVersion, Timeout (of
// a whole call; 10 s) and HTTP.
type Client struct {
	Expected
	URL, Path, AppVersion string
	Timeout               time.Duration
	HTTP                  http.Client

	leases sync.Map
	// Why nothing was activated, for the next check.
	refused atomic.Pointer[Error]
}

// Status is what a program is told; State is one of those in the README, Err why the server gave no good answer, or
// why nothing can be kept.
type Status struct {
	Valid, IsOffline bool
	State            string
	Claims           Claims
	Err              error
}
type kept struct {
	LicenseKey, Answer string
	Latest             int64
	KeySets            []string
}

// Check asks the server when it is time, else uses what is kept.
func (c *Client) Check() Status {
	ctx, cancel := c.deadline()
	defer cancel()
	known, found := c.look()
	text, _ := found.Claims["next_check_at"].(string)
	if next, _ := time.Parse(time.RFC3339, text); known.LicenseKey == "" || found.Valid && time.Now().Before(next) {
		return found
	}
	members := map[string]any{"lease_id": c.held(known.LicenseKey)}
	fresh := c.ask(ctx, "validate", known, members, !found.Valid)
	if fresh.Claims != nil && !fresh.Valid && fresh.State != "no_lease" && found.Valid {
		fresh = c.ask(ctx, "validate", known, members, true) // A "no" is asked for again before it takes the place of what is kept.
	}
	if fresh.Claims != nil {
		return fresh
	} else if found.Valid {
		found.State = "unreachable_but_valid_until"
	}
	if found.IsOffline = true; found.State != "no_storage" {
		found.Err = fresh.Err
	}
	return found
}

// Activate takes a place for this device. A refusal changes nothing that is kept. Where nothing can be kept, no place is
// taken: the program would ask for its license key at each start.
func (c *Client) Activate(licenseKey, name string) Status { return c.take(licenseKey, nil, name, 0) }

// Replace takes the place of the device with this ID, one of those that the Error of a full license names.
func (c *Client) Replace(licenseKey, name string, id int64) Status {
	return c.take(licenseKey, nil, name, id)
}

// StartTrial starts this device's trial of the product, or gets the one that it has, and keeps it as Activate does.
// policy is needed where the product has several for trials, else 0. A refusal changes nothing that is kept.
func (c *Client) StartTrial(policy int, email, name string) Status {
	return c.take("", map[string]any{"policy": orNull(policy), "email": orNull(email), "name": orNull(name)}, name, 0)
}

// TakeLease takes a lease of a floating license. holder names who has it ("": a random name), seconds is for how long (0:
// as the terms say); licenseKey is needed where nothing was activated, else "". An *Error has the problem's code
// (no_free_lease ...).
func (c *Client) TakeLease(holder string, seconds int, licenseKey string) (*Lease, error) {
	known, _ := c.look()
	known.LicenseKey = orElse(licenseKey, known.LicenseKey)
	lease := &Lease{client: c, known: known, holder: orElse(holder, random()), seconds: seconds, timer: time.NewTimer(0)}
	if err := lease.Renew(); err != nil {
		lease.timer.Stop()
		return nil, err
	}
	c.leases.Store(lease, true)
	return lease, nil
}

// The id of a lease of this license that is held; nil without one.
func (c *Client) held(licenseKey string) (id any) {
	c.leases.Range(func(one, _ any) bool {
		lease := one.(*Lease)
		if found, isHeld := lease.look(); isHeld && lease.known.LicenseKey == licenseKey {
			id = found
		}
		return id == nil
	})
	return id
}

// Lease is a place of a floating license, renewed in the background until Release.
type Lease struct {
	client     *Client
	known      kept
	seconds    int
	mutex      sync.Mutex
	holder, id string
	ends       time.Time
	length     time.Duration
	timer      *time.Timer
	isOver     bool
}

// IsHeld turns false when the place is lost: the server was away too long, or gave it to another.
func (l *Lease) IsHeld() bool { _, isHeld := l.look(); return isHeld }
func (l *Lease) look() (id string, isHeld bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.id, time.Now().Before(l.ends)
}

// Renew renews the lease before half of its time has passed. It returns what TakeLease does.
func (l *Lease) Renew() error {
	ctx, cancel := l.client.deadline()
	defer cancel()
	id, _ := l.look()
	began, path, known := time.Now(), map[bool]string{true: "leases", false: "leases/renew"}[id == ""], l.known
	members := map[string]any{"holder": l.holder, "seconds": orNull(l.seconds), "lease_id": orNull(id)}
	claims, err := l.client.exchange(ctx, path, &known, members)
	found, _ := claims["lease"].(map[string]any)
	id, _ = found["id"].(string)
	text, _ := found["expires_at"].(string)
	end, unread := time.Parse(time.RFC3339, text)
	// A lease that is shared is the same place for many: what is between may not ask in another's name.
	if err == nil && (id == "" || unread != nil || claims["valid"] != true || found["holder"] != l.holder) {
		err = &Error{Code: "question", Detail: disbelief}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	problem, _ := err.(*Error)
	wait := l.length / 10
	if l.isOver {
		return err
	} else if err == nil {
		l.id, l.length = id, time.Duration(end.Unix()-claims.integer("iat"))*time.Second
		l.ends, wait = began.Add(l.length), l.length/2
	} else if problem != nil && problem.Detail != disbelief && problem.Code != "unreachable" {
		l.ends, wait = time.Time{}, l.length/2
	}
	l.timer.Stop()
	l.timer = time.AfterFunc(wait+time.Second/2, func() { _ = l.Renew() })
	return err
}

// Release gives the lease back. Where the server cannot be told, it ends by itself.
func (l *Lease) Release() {
	ctx, cancel := l.client.deadline()
	defer cancel()
	l.mutex.Lock()
	l.isOver, l.ends = true, time.Time{}
	l.timer.Stop()
	l.client.leases.Delete(l)
	body := l.client.body(map[string]any{"license_key": l.known.LicenseKey, "lease_id": l.id})
	l.mutex.Unlock()
	_, _ = l.client.send(ctx, "POST", "leases/release", body)
}

// Activate this license key, or that of the trial, and keep the answer.
func (c *Client) take(licenseKey string, trial map[string]any, name string, remove int64) (told Status) {
	ctx, cancel := c.deadline()
	defer cancel()
	defer func() {
		problem, _ := told.Err.(*Error)
		if told.Valid || told.State == "unreachable_too_long" || told.State == "no_storage" {
			problem = nil
		}
		c.refused.Store(problem)
	}()
	known, found := c.look()
	if found.State == "no_storage" {
		return found
	} else if err := c.write(nil, true); err != nil {
		return Status{State: "no_storage", Err: err}
	}
	if trial != nil {
		var started struct{ License struct{ Key string } }
		text, err := c.send(ctx, "POST", "trials", c.body(trial))
		if err != nil {
			return status(nil, err)
		} else if json.Unmarshal([]byte(text), &started) != nil || started.License.Key == "" {
			return status(nil, errors.New("what answers is no Keywright server"))
		}
		licenseKey = started.License.Key
	}
	taken := kept{LicenseKey: licenseKey, KeySets: known.KeySets}
	return c.ask(ctx, "activate", taken, map[string]any{"name": orNull(name), "remove": orNull(remove)}, true)
}

// When a call that begins now has to return.
func (c *Client) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), orElse(c.Timeout, 10*time.Second))
}

// What is kept, and the status that it leads to by itself. Keeps the highest time seen.
func (c *Client) look() (known kept, found Status) {
	text, err := os.ReadFile(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if refused := c.refused.Load(); refused != nil {
			return known, Status{State: "not_activated", Err: refused}
		}
		return known, Status{State: "not_activated"}
	} else if err != nil {
		return known, Status{State: "no_storage", Err: err}
	}
	err = json.Unmarshal(text, &known)
	claims, failed := c.verify(known, Expected{})
	if problem, _ := failed.(*Error); err == nil && problem != nil && states[problem.Code] != "" {
		return known, Status{State: states[problem.Code], Err: failed}
	} else if err != nil || failed != nil {
		return known, Status{State: "tampered", Err: failed}
	}
	now, iat := time.Now().Unix(), claims.integer("iat")
	if now < iat-tolerance || now < known.Latest-tolerance {
		return known, Status{State: "clock_moved_back"}
	} else if now >= claims.integer("exp") {
		return known, Status{State: "unreachable_too_long"}
	}
	if now > known.Latest+60 {
		known.Latest = now
		text, _ = json.Marshal(known)
		// Without it, a clock that is set back again and again would make the answer last for ever.
		if err = c.write(text, false); err != nil {
			return known, Status{State: "no_storage", Err: err}
		}
	}
	return known, status(claims, nil)
}

func (c *Client) verify(known kept, asked Expected) (Claims, error) {
	want := c.Expected
	want.PublicKeys, _ = FollowKeySets(c.PublicKeys, known.KeySets, minTime)
	want.LicenseKey, want.Nonce, want.Operation, want.Body = known.LicenseKey, asked.Nonce, asked.Operation, asked.Body
	want.MayLackDevice = asked.MayLackDevice
	return Verify(known.Answer, want)
}

// Ask the server; keep an answer that can be believed. Without one, the status has no claims.
func (c *Client) ask(ctx context.Context, call string, known kept, members map[string]any, keepsNo bool) Status {
	claims, err := c.exchange(ctx, call, &known, members)
	if err != nil {
		return status(nil, err)
	}
	found := status(claims, nil)
	if found.State == "no_lease" { // It is about this program, not the license: what is kept stays.
		found.Err = &Error{Code: found.State, Detail: noLease}
	} else if keepsNo || found.Valid {
		// The server's clock is believed: that of this device may be wrong.
		known.Latest = claims.integer("iat")
		text, _ := json.Marshal(known)
		found.Err = c.write(text, false)
	}
	return found
}

// The claims of an answer that can be believed; known gets the answer, and the key sets that led to its key.
func (c *Client) exchange(ctx context.Context, call string, known *kept, members map[string]any) (Claims, error) {
	learnt, nonce := struct{ Keys []string }{}, random()
	if nonce == "" {
		return nil, errors.New("there is no source of random numbers")
	}
	members["license_key"], members["nonce"] = known.LicenseKey, nonce
	body := c.body(members)
	claims, err, asked := Claims(nil), error(nil), Expected{Nonce: nonce, Operation: call, Body: body}
	asked.MayLackDevice = strings.HasPrefix(call, "leases")
	if known.Answer, err = c.send(ctx, "POST", call, asked.Body); err == nil {
		claims, err = c.verify(*known, asked)
	}
	if problem, _ := err.(*Error); problem != nil && problem.Code == "header" {
		text, failed := c.send(ctx, "GET", "signing-keys", "")
		if failed == nil && json.Unmarshal([]byte(text), &learnt) == nil {
			_, known.KeySets = FollowKeySets(c.PublicKeys, append(learnt.Keys, known.KeySets...), time.Now().Unix())
			claims, err = c.verify(*known, asked)
		}
	}
	return claims, err
}

// A request of this program on this device, with these members.
func (c *Client) body(members map[string]any) string {
	members["fingerprint"], members["product"] = c.Fingerprint, orNull(c.Product)
	members["app_version"], members["built_at"] = orNull(c.AppVersion), orNull(c.BuiltAt)
	body, _ := json.Marshal(members)
	return string(body)
}

// Keep this text, written at once or not at all; a trial only finds out whether it could be.
func (c *Client) write(text []byte, isTrial bool) error {
	beside := c.Path + "." + random()
	err := os.WriteFile(beside, text, 0o600)
	if err == nil && !isTrial {
		err = os.Rename(beside, c.Path)
	}
	if err != nil || isTrial {
		_ = os.Remove(beside)
	}
	return err
}

// The text of a good answer, or an *Error for a problem that the server names; an error for all else.
func (c *Client) send(ctx context.Context, method, path, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+"/v3/"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/jwt, application/problem+json, */*;q=0.1"}}
	client := c.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	found, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	problem := &Error{Code: "unreachable", Detail: answer.Status}
	if err != nil {
		return "", err
	} else if len(found) > maxAnswer || answer.StatusCode < 200 || answer.StatusCode >= 300 {
		if answer.StatusCode >= 400 && answer.StatusCode < 500 && answer.StatusCode != 429 {
			_ = json.Unmarshal(found, problem)
		}
		return "", problem
	}
	return string(found), nil
}
func orNull[T comparable](value T) any { return map[bool]any{false: value}[value == *new(T)] }
func random() string {
	bytes := make([]byte, 18)
	if _, err := rand.Read(bytes); err != nil {
		return ""
	}
	return encode(bytes)
}

// The status that claims tell, or an error in their place.
func status(claims Claims, err error) Status {
	if problem, _ := err.(*Error); problem != nil && problem.Detail != disbelief {
		return Status{State: orElse(states[problem.Code], "not_activated"), Err: err}
	} else if err != nil {
		return Status{State: "unreachable_too_long", Err: err}
	}
	return Status{Valid: claims["valid"] == true, State: StateOf(claims), Claims: claims}
}

// StateOf returns the state that an answer leads to by itself.
func StateOf(claims Claims) string {
	code, _ := claims["code"].(string)
	if claims["valid"] != true {
		return orElse(states[code], "not_activated")
	}
	codes, _ := json.Marshal(claims["codes"])
	return map[bool]string{true: "grace", false: "valid"}[strings.Contains(string(codes), `"grace"`)]
}
func orElse[T comparable](value, other T) T {
	return map[bool]T{true: other, false: value}[value == *new(T)]
}
