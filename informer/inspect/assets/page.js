// Shows what the stream sends. Each event is the overview as the server has made it; what
// is on the page is changed into it, so that focus, scrolling and open details stay.
"use strict";
(() => {
	const shown = document.getElementById("informers");
	const live = document.getElementById("live");
	const hold = document.getElementById("hold");
	let held = false;
	let answers = false;
	let latest = "";

	// tell says whether what is shown is what there is.
	function tell() {
		const text = !answers ? "the program does not answer" : held ? "paused" : "live";
		if (live.textContent !== text) live.textContent = text;
		live.classList.toggle("on", answers && !held);
	}

	function same(a, b) {
		return a.nodeType === b.nodeType && a.nodeName === b.nodeName &&
			(a.nodeType !== Node.ELEMENT_NODE || a.getAttribute("data-key") === b.getAttribute("data-key"));
	}

	// become changes a node into another one that is the same but for its content.
	function become(node, wanted) {
		if (node.nodeType !== Node.ELEMENT_NODE) {
			if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
			return;
		}
		for (const { name, value } of wanted.attributes) {
			if (name === "open") continue; // the reader's
			if (node.getAttribute(name) !== value) node.setAttribute(name, value);
		}
		for (const { name } of [...node.attributes]) {
			if (name !== "open" && !wanted.hasAttribute(name)) node.removeAttribute(name);
		}
		children(node, wanted);
	}

	function children(node, wanted) {
		let next = node.firstChild;
		for (const child of [...wanted.childNodes]) {
			let match = next;
			while (match && !same(match, child)) match = match.nextSibling;
			if (!match) {
				node.insertBefore(child, next);
				continue;
			}
			while (next !== match) {
				const gone = next;
				next = next.nextSibling;
				gone.remove();
			}
			become(match, child);
			next = match.nextSibling;
		}
		while (next) {
			const gone = next;
			next = next.nextSibling;
			gone.remove();
		}
	}

	function show() {
		const parsed = new DOMParser().parseFromString("<main>" + latest + "</main>", "text/html");
		children(shown, parsed.querySelector("main"));
	}

	hold.hidden = false;
	hold.addEventListener("click", () => {
		held = !held;
		hold.textContent = held ? "Go on" : "Pause";
		tell();
		if (!held && latest) show();
	});

	// Nobody looks at a page that is hidden: it asks for nothing, and leaves the browser's few
	// connections to a server to others.
	let stream = null;
	function listen() {
		if (document.hidden) {
			if (stream) stream.close();
			stream = null;
			return;
		}
		if (stream) return;
		stream = new EventSource("stream");
		stream.addEventListener("message", (event) => {
			latest = event.data;
			answers = true;
			tell();
			if (!held) show();
		});
		stream.addEventListener("error", () => {
			answers = false;
			tell();
		});
	}
	document.addEventListener("visibilitychange", listen);
	listen();
})();
