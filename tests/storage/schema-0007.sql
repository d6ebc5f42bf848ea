-- A database of the last version before the first release (schema 0007), in SQLite's words. What is sealed is
-- sealed with the tests' secret.

CREATE TABLE licenses (id INTEGER NOT NULL, fingerprint BLOB NOT NULL, sealed_key BLOB NOT NULL, order_id BIGINT,
  product_id BIGINT, user_id BIGINT, expires_at BIGINT, valid_for_days BIGINT, source SMALLINT NOT NULL, status
  SMALLINT NOT NULL, times_activated BIGINT NOT NULL, times_activated_max BIGINT, places BIGINT, created_at BIGINT NOT
  NULL, created_by BIGINT, updated_at BIGINT NOT NULL, updated_by BIGINT, deactivated_records BIGINT DEFAULT 0 NOT
  NULL, CONSTRAINT pk_licenses PRIMARY KEY (id), CONSTRAINT uq_licenses_fingerprint UNIQUE (fingerprint), CONSTRAINT
  ck_licenses_within_places CHECK (times_activated >= 0 AND times_activated <= places));
INSERT INTO licenses VALUES(1,X'A4F9CD85B0E4B245C3CBD8AD82CD2EC23EB242B19101EDAEE756F6DE5DEE791C',X'21E0FB0B5460577462F3B6204DE0995AFD97779C4F6B848B33948F5A56273369A7',1,7,10,1768550400,NULL,3,3,1,2,2,1768480245,1,1768480245,NULL,0);
INSERT INTO licenses VALUES(2,X'B2FF9C1F922E207A5793330DBF322C3A9675E128D923D811C2F5822C5EDF0C0B',X'1C05ED26FD72E0AFF18DC5AF0ED6288A464B054FC428F45F00B45CB6312D10E583',NULL,NULL,9,NULL,NULL,3,3,1,NULL,NULL,1768480245,NULL,1768480245,NULL,1);

CREATE TABLE activations (license_id INTEGER NOT NULL, token VARCHAR(40) NOT NULL, id BIGINT NOT NULL, label
  VARCHAR(255), source SMALLINT NOT NULL, ip_address VARCHAR(45) NOT NULL, user_agent VARCHAR(512) NOT NULL, meta_data
  TEXT, created_at BIGINT NOT NULL, updated_at BIGINT, deactivated_at BIGINT, CONSTRAINT pk_activations PRIMARY KEY
  (license_id, token), CONSTRAINT fk_activations_license_id FOREIGN KEY(license_id) REFERENCES licenses (id)) WITHOUT
  ROWID;
INSERT INTO activations VALUES(1,'fabb57541de5788db8d488a855a96abc4fdd899d',1,'Büro',2,'192.0.2.1','program/1.0','{"os":"linux"}',1768480245,NULL,NULL);
INSERT INTO activations VALUES(2,'7725f9a1b9cd9429ded06b7f04d4b8e667a9fabf',3,NULL,2,'192.0.2.1','program/1.0',NULL,1768480245,NULL,NULL);
INSERT INTO activations VALUES(2,'e2ce50a6ddfdfe7359042c97b30944c66190ea7d',2,NULL,2,'192.0.2.1','program/1.0',NULL,1768480245,1768480245,1768480245);

CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY
  (version_num));
INSERT INTO alembic_version VALUES('0007');

CREATE TABLE api_keys (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(200) NOT NULL, permissions
  VARCHAR(10) NOT NULL, product_id BIGINT, key_hash VARCHAR(64) NOT NULL, secret_hash BLOB NOT NULL, hint VARCHAR(7)
  NOT NULL, created_at BIGINT NOT NULL, revoked_at BIGINT, last_used_at BIGINT, CONSTRAINT uq_api_keys_key_hash UNIQUE
  (key_hash));
INSERT INTO api_keys VALUES(1,'shop','read',NULL,'3354429dcfc7fb2cb3ee10635a6de8e5337aa6b045103c5ed3a130fe853a4be7',X'1AA6BCA6A9B78FB0A540C81C62C7C91C0C98AF924281F59CF6F516E99AD45EAB','f53a048',1768480245,NULL,NULL);

CREATE TABLE daily_counts (day INTEGER NOT NULL, name VARCHAR(40) NOT NULL, amount BIGINT NOT NULL, CONSTRAINT
  pk_daily_counts PRIMARY KEY (day, name)) WITHOUT ROWID;
INSERT INTO daily_counts VALUES(20468,'api_key.created',1);
INSERT INTO daily_counts VALUES(20468,'generator.created',1);
INSERT INTO daily_counts VALUES(20468,'job.done',2);
INSERT INTO daily_counts VALUES(20468,'job.started',4);
INSERT INTO daily_counts VALUES(20468,'license.activated',3);
INSERT INTO daily_counts VALUES(20468,'license.created',2);
INSERT INTO daily_counts VALUES(20468,'license.deactivated',1);
INSERT INTO daily_counts VALUES(20468,'license.updated',2);
INSERT INTO daily_counts VALUES(20468,'license.validated',3);
INSERT INTO daily_counts VALUES(20468,'name.saved',2);
INSERT INTO daily_counts VALUES(20468,'user.code_refused',1);
INSERT INTO daily_counts VALUES(20468,'user.created',1);
INSERT INTO daily_counts VALUES(20468,'user.second_factor_enabled',1);
INSERT INTO daily_counts VALUES(20468,'user.sign_in_refused',1);

CREATE TABLE events (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, at BIGINT NOT NULL, name VARCHAR(40) NOT NULL,
  license_id BIGINT NOT NULL, activation_id BIGINT, actor VARCHAR(80) NOT NULL, ip_address VARCHAR(45) NOT NULL,
  details TEXT);
INSERT INTO events VALUES(1,1768480245,'license.created',1,NULL,'program','192.0.2.1',NULL);
INSERT INTO events VALUES(2,1768480245,'license.created',2,NULL,'program','192.0.2.1',NULL);
INSERT INTO events VALUES(3,1768480245,'license.activated',1,1,'program','192.0.2.1',NULL);
INSERT INTO events VALUES(4,1768480245,'license.activated',2,2,'program','192.0.2.1',NULL);
INSERT INTO events VALUES(5,1768480245,'license.deactivated',2,2,'program','192.0.2.1',NULL);
INSERT INTO events VALUES(6,1768480245,'license.updated',1,NULL,'program','192.0.2.1','{"user_id":[8,10]}');
INSERT INTO events VALUES(7,1768480245,'license.activated',2,3,'program','192.0.2.1',NULL);
INSERT INTO events VALUES(8,1768480245,'generator.created',0,NULL,'program','192.0.2.1','{"generator_id":1,"generator":"Hex"}');
INSERT INTO events VALUES(9,1768480245,'name.saved',0,NULL,'program','192.0.2.1','{"kind":"product","number":7,"name":[null,"Writer"]}');
INSERT INTO events VALUES(10,1768480245,'name.saved',0,NULL,'program','192.0.2.1','{"kind":"user","number":10,"name":[null,"Anna"]}');
INSERT INTO events VALUES(11,1768480245,'user.created',0,NULL,'program','192.0.2.1','{"user_id":1,"user":"alice","role":"administrator"}');
INSERT INTO events VALUES(12,1768480245,'user.second_factor_enabled',0,NULL,'program','192.0.2.1','{"user_id":1,"user":"alice"}');
INSERT INTO events VALUES(13,1768480245,'user.code_refused',0,NULL,'visitor','192.0.2.1','{"user_id":1,"user":"alice"}');
INSERT INTO events VALUES(14,1768480245,'user.sign_in_refused',0,NULL,'program','192.0.2.1','{"user_id":1,"user":"alice"}');
INSERT INTO events VALUES(15,1768480245,'api_key.created',0,NULL,'program','','{"api_key_id":1,"api_key":"shop","permissions":"read"}');
INSERT INTO events VALUES(16,1768480245,'job.started',0,NULL,'user:7','192.0.2.1','{"job_id":1,"kind":"export","total":null}');
INSERT INTO events VALUES(17,1768480245,'job.done',0,NULL,'user:7','192.0.2.1','{"job_id":1,"kind":"export","done":1,"refused":0}');
INSERT INTO events VALUES(18,1768480245,'job.started',0,NULL,'user:7','192.0.2.1','{"job_id":2,"kind":"change","total":null}');
INSERT INTO events VALUES(19,1768480245,'license.updated',1,NULL,'user:7','192.0.2.1','{"times_activated_max":[1,2]}');
INSERT INTO events VALUES(20,1768480245,'job.done',0,NULL,'user:7','192.0.2.1','{"job_id":2,"kind":"change","done":1,"refused":0}');
INSERT INTO events VALUES(21,1768480245,'job.started',0,NULL,'user:7','192.0.2.1','{"job_id":3,"kind":"generate","total":2}');
INSERT INTO events VALUES(22,1768480245,'job.started',0,NULL,'user:7','192.0.2.1','{"job_id":4,"kind":"change","total":null}');

CREATE TABLE generators (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(255) NOT NULL, charset
  VARCHAR(255) NOT NULL, chunks BIGINT NOT NULL, chunk_length BIGINT NOT NULL, times_activated_max BIGINT, separator
  VARCHAR(255), prefix VARCHAR(255), suffix VARCHAR(255), expires_in_days BIGINT, created_at BIGINT NOT NULL,
  created_by BIGINT, updated_at BIGINT NOT NULL, updated_by BIGINT);
INSERT INTO generators VALUES(1,'Hex','0123456789ABCDEF',4,4,NULL,NULL,NULL,NULL,NULL,1768480245,NULL,1768480245,NULL);

CREATE TABLE installation (id INTEGER NOT NULL, secret_mark VARCHAR(16) NOT NULL, created_at BIGINT NOT NULL,
  oldest_code VARCHAR(32), previous_secret_mark VARCHAR(16), CONSTRAINT pk_installation PRIMARY KEY (id));
INSERT INTO installation VALUES(1,'af0136c4263f20f4',1795363198,'0002',NULL);

CREATE TABLE job_pieces (job_id BIGINT NOT NULL, number BIGINT NOT NULL, sealed BLOB NOT NULL, CONSTRAINT
  pk_job_pieces PRIMARY KEY (job_id, number));
INSERT INTO job_pieces VALUES(1,2,X'1A6ECE759B04D4D677F76A185D5EBAD0CC7B101A8FBCA8BB4DED6B11B97563AD87A0E82575A758520BDF5BA6FCB18C70D284CC2A249529D37F28FD628A7A900D32411B5F74230C6B155E3BA779A977730A03F006E8B9C0B321F04C3F0FF8D84509');

CREATE TABLE jobs (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, kind VARCHAR(30) NOT NULL, state VARCHAR(10) NOT
  NULL, parameters TEXT NOT NULL, total BIGINT, done BIGINT NOT NULL, refused BIGINT NOT NULL, position BIGINT NOT
  NULL, said TEXT, created_at BIGINT NOT NULL, created_by BIGINT NOT NULL, started_at BIGINT, finished_at BIGINT,
  claimed_by VARCHAR(40), claimed_until BIGINT);
INSERT INTO jobs VALUES(1,'export','done','{"order":{"license_ids":null,"search":{"status":null,"product_id":null,"order_id":null,"user_id":9,"expiring_within_days":null,"is_full":false,"is_unused":false,"license_id":null,"term":null,"is_prefix":false,"order":"newest"}},"actor":"user:7","ip_address":"192.0.2.1","last_license_id":2}',1,1,0,2,NULL,1768480245,7,1768480245,1768480245,NULL,NULL);
INSERT INTO jobs VALUES(2,'change','done','{"order":{"what":"raise_limit","amount":1,"is_from_now":false,"license_ids":null,"search":{"status":null,"product_id":null,"order_id":null,"user_id":10,"expiring_within_days":null,"is_full":false,"is_unused":false,"license_id":null,"term":null,"is_prefix":false,"order":"newest"}},"actor":"user:7","ip_address":"192.0.2.1","last_license_id":2}',1,1,0,1,NULL,1768480245,7,1768480245,1768480245,NULL,NULL);
INSERT INTO jobs VALUES(3,'generate','waiting','{"order":{"generator_id":1,"amount":2,"status":3,"order_id":null,"product_id":null,"user_id":10},"actor":"user:7","ip_address":"192.0.2.1","last_license_id":2}',2,0,0,0,NULL,1768480245,7,NULL,NULL,NULL,NULL);
INSERT INTO jobs VALUES(4,'change','waiting','{"order":{"what":"disable","amount":null,"is_from_now":false,"license_ids":null,"search":{"status":null,"product_id":null,"order_id":null,"user_id":9,"expiring_within_days":null,"is_full":false,"is_unused":false,"license_id":null,"term":null,"is_prefix":false,"order":"newest"}},"actor":"user:7","ip_address":"192.0.2.1","last_license_id":2}',NULL,0,0,0,NULL,1768480245,7,NULL,NULL,NULL,NULL);

CREATE TABLE kept_answers (scope BLOB NOT NULL, request_digest BLOB NOT NULL, status SMALLINT NOT NULL, sealed_body
  BLOB NOT NULL, kept_at BIGINT NOT NULL, CONSTRAINT pk_kept_answers PRIMARY KEY (scope)) WITHOUT ROWID;
INSERT INTO kept_answers VALUES(X'7EDB360F06ACAEF2CC80DBA16CF563F199D347DB4443DA04DA0C8173E3F9E4ED',X'E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855',200,X'49B0140840F250F543A38DDF699C6C4DA3C9696903DF70849277DDAF',1768480245);

CREATE TABLE limit_refusals (license_id BIGINT NOT NULL, times BIGINT NOT NULL, last_at BIGINT NOT NULL, CONSTRAINT
  pk_limit_refusals PRIMARY KEY (license_id)) WITHOUT ROWID;
INSERT INTO limit_refusals VALUES(1,2,1768480245);

CREATE TABLE marks (term VARCHAR(300) NOT NULL, license_id BIGINT NOT NULL, activation_id BIGINT NOT NULL, CONSTRAINT
  pk_marks PRIMARY KEY (term, license_id, activation_id)) WITHOUT ROWID;
INSERT INTO marks VALUES('i192.0.2.1',1,1);
INSERT INTO marks VALUES('lbüro',1,1);
INSERT INTO marks VALUES('tfabb57541de5788db8d488a855a96abc4fdd899d',1,1);
INSERT INTO marks VALUES('i192.0.2.1',2,2);
INSERT INTO marks VALUES('te2ce50a6ddfdfe7359042c97b30944c66190ea7d',2,2);
INSERT INTO marks VALUES('i192.0.2.1',2,3);
INSERT INTO marks VALUES('t7725f9a1b9cd9429ded06b7f04d4b8e667a9fabf',2,3);

CREATE TABLE names (kind VARCHAR(10) NOT NULL, number BIGINT NOT NULL, name VARCHAR(200) NOT NULL, CONSTRAINT pk_names
  PRIMARY KEY (kind, number)) WITHOUT ROWID;
INSERT INTO names VALUES('product',7,'Writer');
INSERT INTO names VALUES('user',10,'Anna');

CREATE TABLE positions (name VARCHAR(40) NOT NULL, last_id BIGINT NOT NULL, CONSTRAINT pk_positions PRIMARY KEY
  (name));
INSERT INTO positions VALUES('events',22);
INSERT INTO positions VALUES('events_seen',0);
INSERT INTO positions VALUES('events_after',0);
INSERT INTO positions VALUES('past_until',15);
INSERT INTO positions VALUES('past_events',15);
INSERT INTO positions VALUES('past_licenses',9223372036854775807);
INSERT INTO positions VALUES('past_activations',9223372036854775807);
INSERT INTO positions VALUES('past_token',0);

CREATE TABLE pruned_activations (license_id BIGINT NOT NULL, activation_id BIGINT NOT NULL, CONSTRAINT
  pk_pruned_activations PRIMARY KEY (license_id, activation_id)) WITHOUT ROWID;

CREATE TABLE recovery_codes (user_id BIGINT NOT NULL, code_hash BLOB NOT NULL, CONSTRAINT pk_recovery_codes PRIMARY
  KEY (user_id, code_hash)) WITHOUT ROWID;
INSERT INTO recovery_codes VALUES(1,X'00E731A2CA01368CBF1FAFA28F63C2B211EFCD4C55AD556BA81DE636DAF5CB21');
INSERT INTO recovery_codes VALUES(1,X'023DF341D5E3318105349C39A9C091C8A70597CBC0D1E86CCD7A036AAC04CADD');
INSERT INTO recovery_codes VALUES(1,X'1E91A8D745CB9D54B352B45516F3453F6058D7D4E278A8853B8A546323A55C57');
INSERT INTO recovery_codes VALUES(1,X'27F119804A8AC290AA227B59C9BF5BFB086F940B65032D93661EB52CCFF9BBD3');
INSERT INTO recovery_codes VALUES(1,X'75B8A669C97D6FC4D52487006A3CEA41D7F825A6AA5AAA819621C74CB0E2474B');
INSERT INTO recovery_codes VALUES(1,X'8BF80C0434326FA7F161D7A274A9927D8699229FDC7E0DAB654FDDABC6E294F0');
INSERT INTO recovery_codes VALUES(1,X'903B7CD320A9C8BDE9A320417EF21571F0A3592E818D57DD7F7B0707E314ACA0');
INSERT INTO recovery_codes VALUES(1,X'ED518E1A7C7D6A289F622269C342279AEB0AF388F84B0D0D29583088EBE2F192');
INSERT INTO recovery_codes VALUES(1,X'F74596816B246C2CC7168C995DDEB2E0AC0F13CD3932AD9CA6901393EB20ABAD');
INSERT INTO recovery_codes VALUES(1,X'F862CC11D8B03736C8A2BDDBDD6D50C31E0F31E6A51AB71CA18B9B2E4F9E5B80');

CREATE TABLE second_factors (user_id BIGINT NOT NULL, sealed_secret BLOB NOT NULL, enabled_at BIGINT NOT NULL,
  last_step BIGINT NOT NULL, failures BIGINT NOT NULL, CONSTRAINT pk_second_factors PRIMARY KEY (user_id)) WITHOUT
  ROWID;
INSERT INTO second_factors VALUES(1,X'D346FB7C1A29A875CD28BBAEE2B3BC1B022AFC65749A13B6EE700E0BEE5027CA6F68028EC0750E3366E218F3E53D38D3B36033BC8DE1A1C2E284323B',1768480245,58949341,1);

CREATE TABLE sequences (name VARCHAR(40) NOT NULL, last_id BIGINT NOT NULL, CONSTRAINT pk_sequences PRIMARY KEY
  (name));
INSERT INTO sequences VALUES('license',2);
INSERT INTO sequences VALUES('activation',3);

CREATE TABLE sessions (token_hash BLOB NOT NULL, user_id BIGINT NOT NULL, created_at BIGINT NOT NULL, seen_at BIGINT
  NOT NULL, ip_address VARCHAR(45) NOT NULL, user_agent VARCHAR(512) NOT NULL, CONSTRAINT pk_sessions PRIMARY KEY
  (token_hash)) WITHOUT ROWID;

CREATE TABLE users (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(200) NOT NULL, role VARCHAR(20) NOT
  NULL, password_hash VARCHAR(200) NOT NULL, created_at BIGINT NOT NULL, disabled_at BIGINT, signed_in_at BIGINT,
  CONSTRAINT uq_users_name UNIQUE (name));
INSERT INTO users VALUES(1,'alice','administrator','$argon2id$',1768480245,NULL,NULL);
INSERT INTO users VALUES(7,'dora','support','$argon2id$',1768480245,NULL,NULL);

CREATE INDEX ix_events_license_id ON events (license_id);
CREATE INDEX ix_kept_answers_kept_at ON kept_answers (kept_at);
CREATE INDEX ix_sessions_user_id ON sessions (user_id);
CREATE INDEX ix_limit_refusals_last_at ON limit_refusals (last_at);
CREATE INDEX ix_jobs_unfinished ON jobs (id) WHERE finished_at IS NULL;
CREATE INDEX ix_licenses_status ON licenses (status, id);
CREATE INDEX ix_licenses_product_id ON licenses (product_id, id) WHERE product_id IS NOT NULL;
CREATE INDEX ix_licenses_order_id ON licenses (order_id, id) WHERE order_id IS NOT NULL;
CREATE INDEX ix_licenses_user_id ON licenses (user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX ix_licenses_expires_at ON licenses (expires_at, id) WHERE expires_at IS NOT NULL;
CREATE INDEX ix_activations_deactivated ON activations (license_id, deactivated_at, id) WHERE deactivated_at IS NOT NULL;
CREATE INDEX ix_marks_license_id_activation_id ON marks (license_id, activation_id);
