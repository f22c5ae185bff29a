"""HVD815 keras-load-model: a loaded model's optimizer is made to average gradients.

``hvd.load_model`` wraps the optimizer that it loads; a function changes the loaded one, as HVD811 does. Keras knows its
own optimizers; classes of one's own go into ``custom_objects``.

Example:

```python
model = hvd.load_model("model.keras")
```

Use instead:

```python
model = load_averaging_model("model.keras")
```
"""

from migrator.api import Context, Finding, RefusalError, Site, Template, rule

from .names import keras_features
from .options import options_of

PARAMETERS = ("filepath", "custom_optimizers", "custom_objects", "compression", "legacy_opts")


@rule("HVD815", "keras-load-model", symbols=["horovod.keras.load_model"])
def load_model(site: Site, context: Context) -> Finding:
    arguments = site.arguments(*PARAMETERS)
    if "filepath" not in arguments:
        raise RefusalError("the call does not say what it loads")
    if "custom_optimizers" in arguments:
        raise RefusalError("custom_optimizers are a list of classes: name them in custom_objects, a dict")
    options = options_of(arguments, site)
    told = {name: arguments[name] for name in ("custom_objects",) if name in arguments} | dict(options.told)
    keywords = "".join(f", {name}={{{name}}}" for name in told)
    new = Template(f"load_averaging_model({{filepath}}{keywords})", {"filepath": arguments["filepath"], **told})
    return site.replace(new, helpers=[options.helper("load_averaging_model", keras_features(context))])
