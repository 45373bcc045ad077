"""Distributions, a module each: the logarithms of their densities, and what else JAX has of them."""

from tinyjax.scipy.stats import bernoulli as bernoulli
from tinyjax.scipy.stats import beta as beta
from tinyjax.scipy.stats import betabinom as betabinom
from tinyjax.scipy.stats import binom as binom
from tinyjax.scipy.stats import cauchy as cauchy
from tinyjax.scipy.stats import chi2 as chi2
from tinyjax.scipy.stats import dirichlet as dirichlet
from tinyjax.scipy.stats import expon as expon
from tinyjax.scipy.stats import gamma as gamma
from tinyjax.scipy.stats import gennorm as gennorm
from tinyjax.scipy.stats import geom as geom
from tinyjax.scipy.stats import gumbel_l as gumbel_l
from tinyjax.scipy.stats import gumbel_r as gumbel_r
from tinyjax.scipy.stats import laplace as laplace
from tinyjax.scipy.stats import logistic as logistic
from tinyjax.scipy.stats import multinomial as multinomial
from tinyjax.scipy.stats import multivariate_normal as multivariate_normal
from tinyjax.scipy.stats import nbinom as nbinom
from tinyjax.scipy.stats import norm as norm
from tinyjax.scipy.stats import pareto as pareto
from tinyjax.scipy.stats import poisson as poisson
from tinyjax.scipy.stats import t as t
from tinyjax.scipy.stats import truncnorm as truncnorm
from tinyjax.scipy.stats import uniform as uniform
from tinyjax.scipy.stats import vonmises as vonmises
from tinyjax.scipy.stats import wrapcauchy as wrapcauchy
from tinyjax.scipy.stats.descriptive import mode as mode
from tinyjax.scipy.stats.descriptive import rankdata as rankdata
from tinyjax.scipy.stats.descriptive import sem as sem
from tinyjax.scipy.stats.kernel_density import gaussian_kde as gaussian_kde
from tinyjax.tracebacks import filter_package

__all__ = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gaussian_kde",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "mode",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "rankdata",
    "sem",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
]


filter_package(__name__, ["mode", "rankdata", "sem"])
