// A browser starts no Worker from a file:// page. There the search runs in a hidden frame instead, which
// has the same functions: postMessage, importScripts and the event "message". On a server nothing changes.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const base = new URL(script, document.baseURI);
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      const start = () => {
        document.body.append(this.frame);
        const inside = this.frame.contentWindow;
        this.inside = inside;
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        const load = (place) =>
          new Promise((done, failed) => {
            const element = inside.document.createElement("script");
            element.src = new URL(place, base);
            element.onload = done;
            element.onerror = failed;
            inside.document.head.append(element);
          });
        inside.importScripts = (...places) =>
          places.reduce((before, place) => before.then(() => load(place)), Promise.resolve());
        this.ready = load(base);
      };
      if (document.body) start();
      else this.ready = new Promise((done) => addEventListener("DOMContentLoaded", done)).then(() => (start(), this.ready));
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
