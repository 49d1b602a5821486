"""Estimators: what scikit-learn users reach for."""
