// Browsers refuse a worker's script to a page that was opened as a file. There, a hidden frame of
// the same page runs the script in the worker's place; behind a server nothing is changed.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      const answer = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      // What a worker's script calls; a frame's own would post messages to itself.
      inside.postMessage = answer;
      this.ready = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
        inside.document.body.append(script);
      });
    }
    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(event));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
