// Keys go to the chat from its first frame on, without a click.
addEventListener("load", () => {
  const watch = new MutationObserver(() => {
    if (document.body.classList.contains("-first-byte")) {
      watch.disconnect();
      document.querySelector(".xterm-helper-textarea").focus();
    }
  });
  watch.observe(document.body, { attributeFilter: ["class"] });
});
