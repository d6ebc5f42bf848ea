import { fileStore, Keywright } from "keywright-client";

const publicKeys = ["eUCpOtsXO3ow0Ga2z9i8SE7Q9NcRZfWNQvKTTQ7A9i4"];
fileStore("license.json")
  .then((store) => new Keywright({ url: "http://127.0.0.1:9", publicKeys, store }).check())
  .then((status) => console.log(status.state));
